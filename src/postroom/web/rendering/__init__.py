"""Rendering of pages."""
