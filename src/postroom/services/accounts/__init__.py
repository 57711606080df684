"""Who may come in, and what they did: users, sessions, API keys, the audit log."""
