"""The web server around the application."""
