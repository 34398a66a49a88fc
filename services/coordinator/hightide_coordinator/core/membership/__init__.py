"""Members of groups: they register, answer, fall silent and leave."""
