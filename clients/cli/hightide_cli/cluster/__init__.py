"""`hightide cluster`: what the controller sees, and asking servers who they are."""
