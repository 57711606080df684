"""The embedded engine: one SQLite file, any number of processes of one machine."""

from postroom.storage.sqlite.engine import SqliteStore, connect

__all__ = ["SqliteStore", "connect"]
