"""Addresses and lists."""
