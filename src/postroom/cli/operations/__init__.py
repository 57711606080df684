"""Commands that run Postroom, check it, and manage its store."""
