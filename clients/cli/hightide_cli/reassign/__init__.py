"""`hightide reassign`: plans of moves, their application, and their progress."""
