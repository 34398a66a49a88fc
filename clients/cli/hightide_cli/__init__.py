"""The `hightide` command."""
