"""The printing of results: tables, documents, progress, and text that redraws itself."""
