"""How a reader decides: where it stands, what it fetches, from whom, and what it hands out."""
