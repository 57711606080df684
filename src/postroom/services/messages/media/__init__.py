"""Pictures in messages: uploading, storing, and where each is used."""
