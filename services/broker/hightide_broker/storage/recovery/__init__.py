"""What a log promised, what is found of it, and how it is opened and mended."""
