"""What an operator looks at: events, health, the store as a whole."""
