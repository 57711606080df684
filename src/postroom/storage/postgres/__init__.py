"""The engine for several machines: a schema `postroom` in a PostgreSQL database."""

from postroom.storage.postgres.engine import PostgresStore, connect

__all__ = ["PostgresStore", "connect"]
