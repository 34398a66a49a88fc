"""The rows of the table. Each measures both systems in the same way."""
