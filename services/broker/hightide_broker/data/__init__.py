"""Requests of clients about records: produce, fetch, list offsets, delete, describe."""
