"""Packs answers: static files by brotli or gzip, texts by gzip where no other site could learn from their length.

The length of a packed text tells whether a guess stands in it twice (BREACH). A stranger needs many answers with
guesses beside a secret, for which the stranger's page makes a signed-in browser ask. So a text is packed for two kinds
of askers alone: the browser says that no other site had it ask (``Sec-Fetch-Site``), or a program shows its token,
which no other site can. Each packed text has a padding of random length.
"""

from __future__ import annotations

import gzip
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

import brotli
from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.text import compress_string

BYTES_MIN = 1_000
"""Bytes below which packing is no gain: they fit in one packet."""
FILES_MAX = 256
"""Packed files that a process keeps; there are fewer."""
PADDING_MAX = 100
"""Largest number of random bytes added to a packed text."""
TEXTS = ("text/html", "application/json", "application/problem+json")
FILES = ("text/css", "text/javascript", "application/javascript", "image/svg+xml")
OURS = ("same-origin", "none")
"""Words of a browser that asks for a page of ours, or for the person."""
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "br": lambda raw: brotli.compress(raw, quality=9),
    "gzip": lambda raw: gzip.compress(raw, 9, mtime=0),
}
"""Codings of files, the best first."""


class PackingMiddleware:
    """Packs what the asker can unpack. It has to be the outermost, so that no other one reads what is packed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._files: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        """Packed files by path, mark of their content, and coding."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request."""
        response = self._get_response(request)
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if request.path.startswith(settings.STATIC_URL):
            if kind in FILES or response.status_code == HTTPStatus.NOT_MODIFIED:
                self._pack_file(request, response)
        elif kind in TEXTS and isinstance(response, HttpResponse):
            _pack_text(request, response)
        return response

    def _pack_file(self, request: HttpRequest, response: HttpResponseBase) -> None:
        patch_vary_headers(response, ("Accept-Encoding",))
        coding = find_coding(request, tuple(PACKERS))
        whole = response.status_code == HTTPStatus.OK and request.method == "GET"
        if not coding or not whole or not isinstance(response, StreamingHttpResponse):
            return
        key = (request.path, response.headers.get("ETag", ""), coding)
        packed = self._files.get(key)
        if packed is None:
            packed = self._files[key] = PACKERS[coding](response.getvalue())
            while len(self._files) > FILES_MAX:
                self._files.popitem(last=False)
        response.streaming_content = [packed]
        response.headers["Content-Encoding"] = coding
        response.headers["Content-Length"] = str(len(packed))


def find_coding(request: HttpRequest, offered: tuple[str, ...]) -> str:
    """Return the first of the offered codings that the asker can unpack; empty for none."""
    accepted = set()
    for part in request.headers.get("Accept-Encoding", "").split(","):
        name, _, quality = part.partition(";")
        if quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            accepted.add(name.strip().lower())
    return next((coding for coding in offered if coding in accepted), "")


def is_asked_by_us(request: HttpRequest) -> bool:
    """Return True if no page of another site can have made this request with a member's rights."""
    return request.headers.get("Sec-Fetch-Site") in OURS or "Authorization" in request.headers


def _pack_text(request: HttpRequest, response: HttpResponse) -> None:
    patch_vary_headers(response, ("Accept-Encoding", "Sec-Fetch-Site"))
    if response.has_header("Content-Encoding") or len(response.content) < BYTES_MIN:
        return
    if is_asked_by_us(request) and find_coding(request, ("gzip",)):
        response.content = compress_string(response.content, max_random_bytes=PADDING_MAX)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.content))
