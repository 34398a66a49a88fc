"""The data directories of a broker: what lives in which, flushing, retention, scrubbing, mending."""
