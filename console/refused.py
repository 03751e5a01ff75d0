"""The sentence with which a request was refused, kept with the request for whoever tells of it later."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

_KEPT = "fabric_refused"


def sentence_kept(request: HttpRequest, message: str) -> None:
    """Keeps why a request was refused."""
    setattr(request, _KEPT, message)


def sentence_of(request: HttpRequest, response: HttpResponse) -> str:
    """Why it was refused; empty: nobody kept it."""
    return str(getattr(request, _KEPT, "") or getattr(response, _KEPT, ""))
