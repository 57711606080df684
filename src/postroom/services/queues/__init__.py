"""Queues, the applications that take their messages, and the hosts that run these."""
