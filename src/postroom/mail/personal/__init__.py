"""What differs between the emails of a message: merge fields and where they are."""
