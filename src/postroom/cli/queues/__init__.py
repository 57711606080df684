"""Commands about queues and applications."""
