"""How results are printed: tables, documents, progress, and text that redraws itself."""
