"""What docs/reference/ says, made from the code; `docs/generate.py` writes it."""
