"""How every service is served over gRPC, and opens channels to others."""
