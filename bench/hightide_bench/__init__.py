"""Benchmarks of a cluster, and campaigns of faults that check its promises."""
