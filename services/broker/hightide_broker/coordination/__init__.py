"""Who decides which broker leads a partition: a controller, or the replicas themselves. One is chosen where a
broker is put together."""
