"""What a broker knows of the cluster: metadata, the controller's decisions, settings of topics."""
