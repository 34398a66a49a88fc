"""What the controller orders, and what a broker finds at start: which replicas live here."""
