"""The embedded engine: one SQLite file, for any number of processes on one machine."""

from postroom.storage.sqlite.engine import SqliteStore, check_exists, connect

__all__ = ["SqliteStore", "check_exists", "connect"]
