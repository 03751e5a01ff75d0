"""Django's backend for PostgreSQL, which can be emptied between tests although its journals are append-only."""
