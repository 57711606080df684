"""Transports: each sends a batch of emails and returns a result for each."""
