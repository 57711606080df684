"""Signing up: the form, for one list or a choice of several, here and on other websites."""
