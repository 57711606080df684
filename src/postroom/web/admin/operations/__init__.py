"""Home, and pages for operators."""
