"""From a message and a subscriber to the bytes of an email."""
