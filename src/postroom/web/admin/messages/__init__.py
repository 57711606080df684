"""Pages about messages."""
