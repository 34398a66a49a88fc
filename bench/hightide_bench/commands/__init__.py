"""`hightide bench …`: a file for each command, and their common parts."""
