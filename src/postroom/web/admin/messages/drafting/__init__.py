"""The editor page of a message."""
