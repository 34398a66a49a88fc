"""The requests of an admin client, the processes that it asks, and their answers."""
