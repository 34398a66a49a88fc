"""What a coordinator knows of its shard: groups, their members, work under way."""
