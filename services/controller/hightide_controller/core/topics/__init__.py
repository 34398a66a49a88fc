"""Topics come, go, grow, shrink and change their settings."""
