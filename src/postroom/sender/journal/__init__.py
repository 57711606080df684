"""What a sender was doing, kept in a local file for its successor."""
