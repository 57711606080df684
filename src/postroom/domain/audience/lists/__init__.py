"""The properties of a list: its definition, appearance, brand, and emails."""
