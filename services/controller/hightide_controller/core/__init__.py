"""The decisions of the controller: pure state machines, events in and effects out."""
