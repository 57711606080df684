"""How many subscribers a list has, and had."""
