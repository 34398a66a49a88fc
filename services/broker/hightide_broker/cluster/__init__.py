"""What a broker knows of the cluster: metadata, decisions of the controller, settings of topics."""
