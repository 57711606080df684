"""What keeps mail deliverable, as JSON: bounces, suppressions, providers, domains."""
