"""What a controller does, as traces."""
