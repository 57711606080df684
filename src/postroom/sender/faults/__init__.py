"""Faults that are not a recipient's: of the account, the server, the store."""
