"""A Hightide cluster on one machine: a real ZooKeeper, real processes, and a pytest plugin."""
