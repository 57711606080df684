"""How fast Postroom is, next to others that do the same work in the same run."""
