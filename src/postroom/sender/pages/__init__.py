"""A page of emails, from its claim to its outcomes."""
