"""The console as a Django app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from console.pages.runs.live_source import DatabaseSource


class ConsoleConfig(AppConfig):
    """The outermost layer: pages, sockets, API."""

    name = "console"

    def ready(self) -> None:
        """Load the Celery application and the checks. So a task sent from a view or a command finds its broker."""
        from console import celery  # noqa: F401
        from console.installation import checks  # noqa: F401
        from console.live.sources import set_source

        set_source(_new_source)


def _new_source() -> DatabaseSource:
    from console.pages.runs.live_source import DatabaseSource  # A command that serves no page does not load the pages.

    return DatabaseSource()
