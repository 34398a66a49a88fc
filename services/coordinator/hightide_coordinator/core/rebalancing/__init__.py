"""When a group's partitions are shared out anew, and topics that are a reason for it."""
