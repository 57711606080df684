"""Who gets a message: segments, audiences, and how many people they hold."""
