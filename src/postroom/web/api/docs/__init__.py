"""The document of the API, for programs and for people."""
