"""Subscribers of a listmonk installation, read from its API."""
