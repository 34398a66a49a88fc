"""The decisions of a producer: which batches wait, which are sent now, and what happens after their
outcomes."""
