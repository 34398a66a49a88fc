"""A service as a process: its settings, its event loop, the watch over that loop, and its end."""
