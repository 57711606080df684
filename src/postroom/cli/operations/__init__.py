"""Commands that run Postroom and look after it."""
