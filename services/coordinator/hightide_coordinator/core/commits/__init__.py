"""Committed offsets: which member may commit which, and how commits become durable."""
