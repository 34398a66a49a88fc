"""What the pages show, as pure functions of what the SDK answers."""
