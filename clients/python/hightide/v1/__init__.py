"""The generated stubs of the contract: protobuf package `hightide.v1`."""
