"""Subscribers in and out of files."""
