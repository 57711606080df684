"""Writing the lines of an import into the store."""
