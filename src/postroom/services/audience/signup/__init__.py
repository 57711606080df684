"""What subscribers do themselves: sign up, change preferences, leave."""
