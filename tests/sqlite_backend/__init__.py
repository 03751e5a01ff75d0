"""Django's backend for SQLite, which can be emptied between tests although its journals are append-only."""
