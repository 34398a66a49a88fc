"""The documents that each command prints with `-o json`: the registry, and the form of its entries."""
