"""Serves the documents: a page for each, a page that lists and searches all, and their pictures."""

from __future__ import annotations

from itertools import groupby

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.docs.library import (
    INDEX,
    KINDS,
    QUERY_CHARS_MAX,
    RESULTS_MAX,
    Document,
    documents,
    picture_path,
    search_documents,
)
from console.pages.docs.markup import document_markup


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """List the documents by kind; with ``?q=`` the sections that have its words."""
    query = request.GET.get("q", "").strip()[:QUERY_CHARS_MAX]
    shown = {"query": query, "hits": search_documents(query), "most": RESULTS_MAX, "kinds": _group_by_kind()}
    return render(request, "docs/index.html", shown)


@require_safe
def page(request: HttpRequest, document: str) -> HttpResponse:
    """Show one document with its table of contents."""
    found = documents().get(document)
    if found is None or document == INDEX:
        raise Http404(f"There is no document {document}: the list of documents is at /docs.")
    headings = [one for one in found.sections if one.level == 2]
    shown = {
        "document": found,
        "markup": document_markup(document),
        "headings": headings if len(headings) > 1 else [],
        "kind": KINDS[found.kind][0],
        "kinds": _group_by_kind(),
    }
    return render(request, "docs/page.html", shown)


@require_safe
def picture(request: HttpRequest, picture: str) -> FileResponse:
    """Send one picture of the documents."""
    path = picture_path(picture)
    if path is None:
        raise Http404("There is no picture of that name.")
    kind = "image/svg+xml" if path.suffix == ".svg" else "image/png"
    return FileResponse(path.open("rb"), content_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def _group_by_kind() -> list[tuple[str, str, list[Document]]]:
    listed = [one for one in documents().values() if one.name != INDEX and not one.name.endswith("/README")]
    return [(*KINDS[kind], list(rows)) for kind, rows in groupby(listed, key=lambda one: one.kind)]
