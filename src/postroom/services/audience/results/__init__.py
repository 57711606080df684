"""The results of messages after they were sent."""
