"""Messages and the outcomes of their emails."""
