"""The files of records, and the row of segments that is a log."""
