"""Lists and the people on them: sign-up, confirmation, leaving, search, growth."""
