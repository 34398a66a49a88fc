"""The decisions of a reader: its positions, what it fetches and from which broker, and what it returns."""
