"""Turns a document's Markdown into a page: headings get anchors, and links between documents become addresses."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from django.urls import get_script_prefix, reverse
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.token import Token

from console.pages.docs.library import INDEX, documents, heading_anchor

_reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])


def document_markup(name: str) -> SafeString:
    """Return a document as HTML without its first heading, which the page shows in its head.

    Raises ``KeyError`` for an unknown name.
    """
    return _markup(name, get_script_prefix())


@lru_cache(maxsize=256)
def _markup(name: str, under: str) -> SafeString:
    tokens = _reader.parse(documents()[name].source)
    _anchor_headings(tokens)
    for token in tokens:
        for inner in token.children or ():
            _lead_within(inner, name)
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        tokens = tokens[3:]
    html = _reader.renderer.render(tokens, _reader.options, {})
    scroll = '<div class="scroll" tabindex="0" role="region" aria-label="Table, scrolls sideways"><table class="table">'
    html = html.replace("<pre>", '<pre tabindex="0" role="group" aria-label="Code">')
    return SafeString(html.replace("<table>", scroll).replace("</table>", "</table></div>"))


def _anchor_headings(tokens: Sequence[Token]) -> None:
    taken: dict[str, int] = {}
    for token, inside in pairwise(tokens):
        if token.type != "heading_open":
            continue
        title = "".join(part.content for part in inside.children or ())
        token.attrSet("id", heading_anchor(title, taken))
        plain = heading_anchor(title)
        taken[plain] = taken.get(plain, 0) + 1


def _lead_within(token: Token, name: str) -> None:
    """Rewrite one link or picture of a document to the address that serves it.

    A file that no page serves gets no link.
    """
    if token.type == "image":
        source = str(token.attrGet("src") or "")
        token.attrSet("src", reverse("docs-picture", args=[posixpath.basename(source)]))
        token.attrSet("loading", "lazy")
    if token.type != "link_open":
        return
    target = str(token.attrGet("href") or "")
    if "://" in target:
        token.attrSet("rel", "noopener noreferrer")
    elif not target.startswith("#"):
        address = document_address(target, name)
        token.attrs = {"href": address} if address else {}


def document_address(target: str, name: str = "") -> str:
    """Return the address of the document that a link of document ``name`` names; empty when no page serves it."""
    path, _, anchor = target.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).removesuffix(".md")
    if found not in documents():
        return ""
    address = reverse("docs") if found == INDEX else reverse("docs-page", args=[found])
    return f"{address}#{anchor}" if anchor else address
