"""The fields of subscribers: declaring, renaming and deleting them."""
