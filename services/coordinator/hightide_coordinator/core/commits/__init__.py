"""What is committed, by whom it may be, and how it becomes durable."""
