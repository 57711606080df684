"""The dashboard, and pages for operators."""
