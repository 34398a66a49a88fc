"""A service as a process: its settings, its loop, its pulse, its end."""
