"""The engine for own servers: one schema `postroom` in a PostgreSQL database, many machines."""

from postroom.storage.postgres.engine import PostgresStore, connect

__all__ = ["PostgresStore", "connect"]
