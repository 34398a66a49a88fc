"""Everything that can go wrong, at random, on a cluster of its own, and the verdict."""
