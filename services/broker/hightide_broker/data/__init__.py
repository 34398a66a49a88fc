"""What clients ask about records: produce, fetch, list offsets, delete, describe."""
