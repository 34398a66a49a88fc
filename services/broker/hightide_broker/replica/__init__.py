"""The replicas that a broker holds: what performs the effects of their cores, and what waits for them."""
