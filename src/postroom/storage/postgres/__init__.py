"""The engine for several machines: a schema `postroom` in a PostgreSQL database."""
