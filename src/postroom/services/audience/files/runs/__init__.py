"""Imports of uploaded files that run in the background, and survive a restart."""
