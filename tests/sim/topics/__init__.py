"""A simulated cluster of many topics: brokers and controllers with their real shells, cores and storage.

What sim.world does for one partition that is never moved or deleted, this does for topics that come and go:
creation, deletion and recreation, partitions added and removed, replicas moved, elections by hand. Producers
are the core of the SDK's.
"""
