"""Bounces and complaints: stored and queued on arrival, then read, identified and recorded."""
