"""Limits on sending: emails per second, per domain, and connections."""
