"""Login, accounts, users and API keys."""
