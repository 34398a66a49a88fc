"""The simulation of a cluster without a controller (V2): the broker's core, and the core that decides who
leads."""
