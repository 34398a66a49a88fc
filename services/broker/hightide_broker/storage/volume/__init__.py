"""The parts that all logs of a data directory share: files, clock, identity, the memory for recent
batches."""
