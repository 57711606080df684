"""Suppression: addresses that must not receive email, and how bounces and complaints lead to it."""
