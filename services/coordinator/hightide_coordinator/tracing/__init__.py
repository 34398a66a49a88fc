"""The traces of takeovers and rebalances."""
