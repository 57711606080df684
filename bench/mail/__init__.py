"""The whole pipeline, next to other clients of the same mail server."""
