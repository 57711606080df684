"""Pages about lists and subscribers."""
