"""The editor reads a draft once a request and keeps what it could not save."""
