"""The visual language: every component in every state, made with the templates and tags that the pages use."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.views.specimens import specimens


@require_safe
def styleguide(request: HttpRequest) -> HttpResponse:
    """The page; for staff."""
    return render(request, "styleguide/page.html", specimens())
