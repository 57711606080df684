"""The web server that runs the application."""
