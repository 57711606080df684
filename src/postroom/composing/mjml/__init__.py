"""MJML: read, checked and compiled to HTML."""
