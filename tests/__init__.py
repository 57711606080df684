"""What Postroom promises, checked against real services."""
