"""The server takes HTTP requests, keeps a ledger, and sends answers whole or as streams."""
