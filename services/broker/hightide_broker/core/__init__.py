"""The decisions of a replica: pure state machines, events in and effects out."""
