"""`hightide bench …`: a file for each command, and what they have in common."""
