"""The engine for the cloud: tables, queues and blobs of one Azure Storage account."""

from postroom.storage.azure.engine import AzureStore, connect

__all__ = ["AzureStore", "connect"]
