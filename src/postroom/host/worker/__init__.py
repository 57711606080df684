"""What runs in an application's own process."""
