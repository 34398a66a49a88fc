"""`hightide rpc`: any call of any server, by reflection."""
