"""A Hightide cluster on one machine: real ZooKeeper, real processes, a pytest plugin."""
