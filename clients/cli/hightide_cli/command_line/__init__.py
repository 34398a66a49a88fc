"""The parts of every command line: options, completion of names, the chosen cluster, and the text of
failures."""
