"""Work that continues after its request."""
