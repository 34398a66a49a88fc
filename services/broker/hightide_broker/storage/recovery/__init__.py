"""How a log is opened: what is found of it is compared with what it promised, and repaired."""
