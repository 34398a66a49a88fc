"""Where in a segment an offset or a timestamp is."""
