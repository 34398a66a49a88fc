"""Benchmarks, and campaigns of faults: what a cluster can do, and whether it keeps what it promised."""
