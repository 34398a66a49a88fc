"""The other decider: without a controller, the replicas of a partition elect their leader by a race for an
ephemeral znode."""
