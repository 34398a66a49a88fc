"""`hightide dump-log` and `dump-index`: a log on disk, without a broker."""
