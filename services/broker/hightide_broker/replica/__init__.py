"""The replicas that a broker holds, the shell that performs the effects of their cores, and the requests that
wait for them."""
