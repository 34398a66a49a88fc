"""The handlers of the pages: each asks the cluster, has a view made, and renders it."""
