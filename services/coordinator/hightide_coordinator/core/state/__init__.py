"""What a coordinator knows of its shard: groups, their members, what is going on."""
