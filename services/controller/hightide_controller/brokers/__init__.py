"""Brokers as the active controller holds on to them: telling each what was decided, and knocking."""
