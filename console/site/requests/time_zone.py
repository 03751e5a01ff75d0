"""Finds the time zone of a reader. The browser's script writes it into a cookie; without one it is UTC."""

from __future__ import annotations

from datetime import UTC, tzinfo
from urllib.parse import unquote

from django.http import HttpRequest

from fabric.selectors.runs.query.values import read_zone

COOKIE = "zone"
"""Cookie with the zone's name, which static/shell/times.js writes."""


def find_zone(request: HttpRequest) -> tzinfo:
    """Return the reader's time zone; UTC if the browser named none, or one that is none."""
    return read_zone(unquote(request.COOKIES.get(COOKIE, ""))) or UTC
