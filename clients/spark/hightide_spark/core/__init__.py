"""What the data source decides, without I/O: options, offsets, ranges, admission, losses, filters."""
