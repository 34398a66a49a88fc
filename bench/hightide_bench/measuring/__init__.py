"""What is measured, how, and of which cluster."""
