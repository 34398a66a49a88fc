"""The streams between this coordinator and its consumers."""
