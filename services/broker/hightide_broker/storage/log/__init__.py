"""One partition's log: what is appended, read, cut off, kept in mind of producers, and promised."""
