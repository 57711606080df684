"""The whole pipeline, compared with other clients of the same mail server."""
