"""Traces of a local cluster: reads them from files of spans, and explains the time of failovers."""
