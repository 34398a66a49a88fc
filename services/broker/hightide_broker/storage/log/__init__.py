"""One partition's log: its segments, what is appended, read and cut off."""
