"""The operating system's files, and the effects of a disk that fails or hangs."""
