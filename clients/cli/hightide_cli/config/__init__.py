"""`hightide config`: the settings of topics and of servers."""
