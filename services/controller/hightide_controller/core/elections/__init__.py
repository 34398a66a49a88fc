"""Who leads: decisions about partitions, asked for or not, and how they are stored."""
