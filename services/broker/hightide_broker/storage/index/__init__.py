"""The indexes of a segment: the position of an offset or of a timestamp."""
