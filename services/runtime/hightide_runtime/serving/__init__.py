"""Serving every service over gRPC, and opening channels to other processes."""
