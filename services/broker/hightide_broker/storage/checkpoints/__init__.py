"""The small files beside the records: leader epochs, log starts, high watermarks, marks."""
