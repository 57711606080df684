"""The embedded engine: one SQLite file, any number of processes of one machine."""

from postroom.storage.sqlite.engine import SqliteStore, check_is_there, connect

__all__ = ["SqliteStore", "check_is_there", "connect"]
