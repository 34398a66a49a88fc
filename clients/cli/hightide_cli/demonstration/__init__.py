"""`hightide demo`: real data through a real cluster, with a leader and a controller killed on the way."""
