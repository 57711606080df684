"""Calls about messages."""
