"""The campaign: random faults of every kind on a new cluster, and the check of the promises."""
