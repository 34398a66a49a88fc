"""What a run of `hightide topic copy` does, and what it remembers for the next one."""
