"""Traces of failovers: read from the JSON lines of the services, measured, drawn as a waterfall."""
