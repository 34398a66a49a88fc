"""What a core asks of its shell: which RPC, to whom, how long; and where a client begins."""
