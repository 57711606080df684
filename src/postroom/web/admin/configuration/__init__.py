"""Settings that are made in the browser: mail server, bounces, alerts."""
