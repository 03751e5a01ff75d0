"""A written page names nothing that is gone: each name, variable and address in it stands in the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from django.urls import URLPattern, URLResolver, get_resolver

from console.launch.processes.data_directory import ROOT
from console.launch.variables import table as variables
from tests.documents.test_pages import WRITTEN, tracked

SPAN = re.compile(r"`([^`\n]+)`")
WORD = re.compile(r"[A-Za-z_]\w*")
VARIABLE = re.compile(r"\bFABRIC_[A-Z_]*[A-Z]\b")
ADDRESS = re.compile(r"`(/[a-z][\w/-]*)`")
OF_OTHERS = {
    *("DB", "LOCAL"),  # Places for a reader's own words.
    *("UNIQUE", "archive_mode", "recovery_target_action", "recovery_target_time", "promote"),  # PostgreSQL's.
    *("eventlet", "gevent"),  # Celery's.
    *("cdx",),  # A part of a file's name.
    *("memory_check_NAME", "memory_restore_NAME"),  # Made with the name of a memory.
}
"""Names that are not the program's."""
FOR_OTHERS = {"FABRIC_HOST", "FABRIC_AG2_PYTHON", "FABRIC_LOCAL_MODEL_PYTHON", "FABRIC_TOKEN", "FABRIC_URL"}
"""Variables of Compose, of the tests and of examples."""
OTHER_WAYS = ("/livez", "/readyz", "/healthz", "/api/v1", "/v1")
"""Beginnings of addresses of probes, of the API as a whole, and of the scripted endpoint."""


@cache
def names() -> frozenset[str]:
    """The names in all code of the repository and of its files, but for those in this file."""
    texts = (".py", ".html", ".js", ".css", ".toml", ".yaml", ".sh", ".in", ".lock", ".service", ".json", ".tpl")
    files = [ROOT / one for one in tracked() if one.endswith(texts) or "Dockerfile" in one or "Caddyfile" in one]
    paths = {word for one in tracked() for word in WORD.findall(one)}
    return frozenset(
        word
        for path in files
        if path.is_file() and path != Path(__file__)
        for word in WORD.findall(path.read_text(encoding="utf-8", errors="replace"))
    ).union(paths)


def gone(text: str) -> set[str]:
    """The names between backticks that are nowhere in the program."""
    return {word for span in SPAN.findall(text) for word in WORD.findall(span)} - names() - OF_OTHERS


def routes(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    """The addresses of the program, without their parameters."""
    for one in resolver.url_patterns:
        here = before + re.sub(r"<[^>]*>", "*", str(one.pattern)).lstrip("^").rstrip("$")
        if isinstance(one, URLResolver):
            yield from routes(one, here)
        elif isinstance(one, URLPattern):
            yield here.rstrip("/") or "/"


def test_each_name_between_backticks_stands_in_the_program() -> None:
    assert {(path.name, one) for path in WRITTEN for one in gone(path.read_text())} == set()


def test_each_exception_is_needed() -> None:
    named = {word for path in WRITTEN for span in SPAN.findall(path.read_text()) for word in WORD.findall(span)}
    assert (OF_OTHERS - named, OF_OTHERS & names()) == (set(), set())


def test_a_name_that_is_gone_is_found() -> None:
    assert gone("`manage.py explain`, `policy.no_such_field_anywhere`") == {"no_such_field_anywhere"}


def test_each_variable_is_one_that_the_program_reads() -> None:
    named = {(path.name, one) for path in WRITTEN for one in VARIABLE.findall(path.read_text())}
    assert len(named) > 50
    known = {*variables.VARIABLES, *FOR_OTHERS}
    assert {one for one in named if one[1] not in known and one[1].removesuffix("_FILE") not in known} == set()


def test_each_address_is_one_of_the_program() -> None:
    there = {*routes(get_resolver())}
    named = {(path.name, one) for path in WRITTEN for one in ADDRESS.findall(path.read_text())}
    assert len(named) > 10
    assert {one for one in named if not one[1].startswith(OTHER_WAYS) and one[1] not in there} == set()
