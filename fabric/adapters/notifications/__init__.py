"""Notifications leave by e-mail, by webhook, and to chats."""
