"""Takeovers and rebalances as traces."""
