"""What is checked before a message is sent."""
