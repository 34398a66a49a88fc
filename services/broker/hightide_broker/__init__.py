"""The storage broker: it stores partitions, leads some of them and follows others."""
