"""The calls that a core asks its shell to make (which RPC, to which address, for how long), and a client's
first addresses."""
