"""What became of messages after they were sent."""
