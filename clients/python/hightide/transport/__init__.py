"""How a client reaches servers: channels, RPCs, open streams, and the thread that drives a core."""
