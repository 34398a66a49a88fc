"""`hightide reassign`: plans of moves, making them so, and following them."""
