"""Commands about lists and subscribers."""
