"""What an admin client asks, of whom, and how the answers are told."""
