"""The log on disk: segments, indexes, checkpoints. It knows files and nothing of replication."""
