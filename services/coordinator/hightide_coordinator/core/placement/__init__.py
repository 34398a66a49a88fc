"""Who owns a partition, who may be reading it, and who wants to."""
