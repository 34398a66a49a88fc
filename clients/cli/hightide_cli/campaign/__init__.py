"""`hightide bench faults`: a real cluster under load, struck by everything that can go wrong, and judged."""
