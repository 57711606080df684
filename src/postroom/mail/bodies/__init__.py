"""The parts of an email: HTML, plain text, attached files."""
