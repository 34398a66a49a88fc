"""The decisions of one broker in the leader-coordinated design: pure state machines, events in and effects
out."""
