"""The decisions of the coordinator: pure state machines, events in and effects out."""
