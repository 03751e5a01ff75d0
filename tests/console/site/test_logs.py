"""docs/reference/logs.md lists every line of our log; nothing of ours is said at INFO or below; lines of JSON are one object each."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.launch.processes.data_directory import ROOT
from console.site.log_output import QUIET, JsonLines

PAGE = ROOT / "docs" / "reference" / "logs.md"
METHODS = ("debug", "info", "warning", "error", "exception", "critical", "log")
LEVELS = {"critical": "CRITICAL", "warning": "WARNING", "error": "ERROR", "exception": "ERROR, with a traceback"}
HEAD = """# Logs

Everything goes to standard error, as lines of text. With `FABRIC_LOG_FORMAT=json` each line is one JSON object: `at`,
`level`, `logger`, `message`, `process`, and `error` with a traceback. `FABRIC_LOG_LEVEL` says from which level on.

Nothing of Fabric Flow's own is said below WARNING. No line holds a password, a key, a token, or what a run was given or
said. Who did what stands in [the audit stream](../how-to/verify-the-audit-trail.md), and not here.

Django and Celery speak from the level that is set. `httpx2` and its like speak from WARNING on: at INFO they would say
addresses with their queries.

`%s` is filled in when a line is said: ids, counts, and what a database or a server answered.

This page is made from the source by `tests/console/site/test_logs.py`.

| logger | level | line |
|---|---|---|
"""


SAYS = re.compile(r"\b_?log(ger)?\.")


def calls() -> Iterator[tuple[str, str, str]]:
    """Logger, method and text of each line, in the order of the source."""
    for folder in ("console", "fabric", "simulator"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text()
            for node in ast.walk(ast.parse(source)) if SAYS.search(source) else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    on = node.func.value
                    if isinstance(on, ast.Name) and on.id in ("log", "_log", "logger") and node.func.attr in METHODS:
                        said = node.args[0]
                        text = said.value if isinstance(said, ast.Constant) else ast.unparse(said)
                        traced = any(given.arg == "exc_info" for given in node.keywords)
                        yield _module(path), "exception" if traced else node.func.attr, str(text)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_nothing_of_ours_is_said_below_warning():
    found = list(calls())
    assert len(found) > 50
    assert [one for one in found if one[1] not in LEVELS] == []


def test_the_page_lists_every_line():
    rows = sorted(
        {f"| `{where}` | {LEVELS[how]} | {text.replace('|', chr(92) + '|')} |" for where, how, text in calls()}
    )
    page = HEAD + "\n".join(rows) + "\n"
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "WRITE_DOCS=1 writes it anew"


def test_a_line_of_json_is_one_object_whatever_is_in_the_message():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord(
            "fabric.x", logging.ERROR, __file__, 1, "said %s", ("a\nb\x1b[0m\u2028",), sys.exc_info()
        )
    line = JsonLines().format(record)
    assert "\n" not in line
    said = json.loads(line)
    assert (said["level"], said["logger"], said["message"]) == ("ERROR", "fabric.x", "said a\nb\x1b[0m\u2028")
    assert said["at"].endswith("Z")
    assert "ValueError: two" in said["error"]


@pytest.mark.parametrize("name", QUIET)
def test_libraries_that_say_addresses_are_heard_from_warning_on(name):
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)
