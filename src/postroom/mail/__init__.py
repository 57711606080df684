"""Builds the bytes of an email from a message and a subscriber."""
