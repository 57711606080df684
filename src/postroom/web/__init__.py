"""The web: pages for administrators and for everyone, and the REST API."""
