"""What Spark can do with a cluster, measured."""
