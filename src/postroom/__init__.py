"""Postroom: an email-list service that an organisation runs itself."""

__version__ = "0.1.0"
