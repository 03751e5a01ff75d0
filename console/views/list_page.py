"""A list with a period, chips of its filters, pages and files: what every such page does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.templatetags.figures import moment
from console.views.list_grammar import Asked, Grammar
from fabric.selectors.errors import Refused
from fabric.selectors.time_limit import TookTooLong

ROWS = 50


class Page(Protocol):
    """A page of a list."""

    @property
    def next(self) -> str:
        """The cursor of the next page; empty: this is the last."""


F = TypeVar("F")
P = TypeVar("P", bound=Page)


def list_page(
    request: HttpRequest,
    grammar: Grammar[F],
    template: str,
    *,
    page_of: Callable[[Asked[F], str], P],
    beside: Callable[[Asked[F], P, str], Mapping[str, Any]],
    shown: Mapping[str, Any],
    names: Mapping[str, Sequence[str]] | None = None,
) -> HttpResponse:
    """The page of a list. 422: an unknown word or cursor; 503: the database took too long.

    ``page_of`` reads the rows after a cursor; ``beside`` makes what the page shows of them. ``names``: what the form offers beside the grammar.
    """
    asked, after, now = grammar.read(request.GET), request.GET.get("after", ""), time.time_ns() // 1_000
    known = {
        **shown,
        "asked": asked,
        "fields": asked.form(names or {}),
        "after": after,
        "refresh": asked.address(after=after),
        "now_ms": now // 1_000,
        "as_of": f"{moment(now):%H:%M:%S} UTC, reload",
    }
    try:
        page = page_of(asked, after)
        more = asked.address(after=page.next) if page.next else ""
        return render(request, template, known | {"more": more} | dict(beside(asked, page, after)))
    except TookTooLong as refusal:
        return render(request, template, known | {"slow": str(refusal)}, status=503)
    except Refused as refusal:
        if refusal.code != "invalid":
            raise
        return render(request, template, known | {"problem": refusal.message}, status=422)
