"""The operating system's files, and what a disk that fails or hangs does to them."""
