"""The client processes. Each runs the same loop for both systems."""
