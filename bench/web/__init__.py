"""The web: sign-ups per second, and the response times of pages with a lot of data."""
