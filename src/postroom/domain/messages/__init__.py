"""Messages, pages and emails."""
