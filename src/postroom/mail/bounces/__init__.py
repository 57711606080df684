"""Emails that come back: what they are, and which email they are about."""
