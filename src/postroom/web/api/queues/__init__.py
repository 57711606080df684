"""Calls about queues and applications."""
