"""What is done with HTML before it is mailed."""
