"""Pages about queues and applications."""
