"""The blocks of the visual editor, and how they become MJML."""
