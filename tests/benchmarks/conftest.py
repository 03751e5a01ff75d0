"""Databases for benchmarks: the ones that the adapters are tested on."""

from tests.fabric.conftest import postgresql_dsn, postgresql_world, sqlite_tables, sqlite_template

__all__ = ["postgresql_dsn", "postgresql_world", "sqlite_tables", "sqlite_template"]
