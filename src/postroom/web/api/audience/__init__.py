"""Calls about lists and subscribers."""
