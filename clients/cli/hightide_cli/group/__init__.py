"""`hightide group`: groups, their lag, and their offsets."""
