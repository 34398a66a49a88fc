"""`hightide demo`: writes real data, reads it with a group, kills processes, and proves that nothing is
lost."""
