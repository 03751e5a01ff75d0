"""The console as a Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The outermost layer: pages, sockets, API."""

    name = "console"

    def ready(self) -> None:
        """Load the Celery application, so that a task sent from a view or a command finds its broker, and the checks."""
        from console import celery, checks  # noqa: F401
