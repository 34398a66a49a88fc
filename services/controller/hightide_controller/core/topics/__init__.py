"""Topics that are created, deleted, grown and shrunk, and their settings."""
