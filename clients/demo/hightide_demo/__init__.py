"""`hightide demo`: real data, a group, kills under load, and the proof that nothing is lost."""
