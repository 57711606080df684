"""HTML out of templates."""
