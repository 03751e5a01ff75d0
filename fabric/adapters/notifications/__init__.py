"""Notifications leave by e-mail and by webhook."""
