"""SendGrid's HTTP API."""
