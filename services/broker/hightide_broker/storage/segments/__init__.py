"""The files of records, and the row of them that is a log."""
