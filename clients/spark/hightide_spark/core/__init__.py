"""The decisions of the data source, without I/O: options, offsets, ranges, admission, losses, filters."""
