"""The engine for the cloud: tables, queues and blobs of one Azure Storage account."""
