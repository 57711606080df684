"""Messages and what becomes of their emails."""
