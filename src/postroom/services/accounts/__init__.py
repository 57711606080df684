"""Users, sessions, API keys and the audit log."""
