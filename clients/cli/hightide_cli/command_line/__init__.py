"""What every command line has: options, names to complete, the cluster that is meant, how failures read."""
