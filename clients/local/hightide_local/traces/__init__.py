"""Traces of a local cluster: read from files of spans, and told as accounts of failovers."""
