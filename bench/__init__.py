"""How fast the store is, beside the raw drivers doing the same work."""
