"""Queues and the applications that they activate."""
