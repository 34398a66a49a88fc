"""How a producer decides: what waits, what goes now, what becomes of what came back."""
