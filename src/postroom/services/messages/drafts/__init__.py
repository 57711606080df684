"""Writing a message: its contents and versions, templates, attached files."""
