"""A layer around the pages writes down which parts of a request they read, so that a test can compare its own list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

READ: dict[str, set[tuple[str, str]]] = {"GET": set(), "POST": set()}
"""Route and name of every parameter, and of every field of a form, that was looked for."""


class _Watched(QueryDict):
    """A query that notes what it is asked for."""

    place = ("", "")

    def _note(self, key: object) -> None:
        kind, route = self.place
        if kind and isinstance(key, str):
            READ[kind].add((route, key))

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As ever."""
        self._note(key)
        return super().get(key, default)

    def getlist(self, key: str, default: Any = None) -> Any:
        """As ever."""
        self._note(key)
        return super().getlist(key, default)


class Watching:
    """Middleware: the last before the views."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self._get_response(request)

    def process_view(self, request: HttpRequest, _view: object, _args: object, _kwargs: object) -> None:
        """Puts the watched queries in place of Django's."""
        route = request.resolver_match.view_name if request.resolver_match else ""
        for kind in READ if request.method == "POST" else ("GET",):
            given: QueryDict = getattr(request, kind)
            watched: Any = _Watched(given.urlencode(), encoding=given.encoding)
            watched.place = (kind, route)
            setattr(request, kind, watched)
