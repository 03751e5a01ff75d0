"""No fabric loads code by naming it: an author hands in a fabric by each way, with modules that act when they are imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from fabric.services.fabrics.revisions import fabric_publish
from tests.console.api.client import Program
from tests.console.api.conftest import program, token
from tests.fabric.services.world import SMALL

__all__ = ["program", "token"]

API = "/api/v1"
TARGETS = ("acting.sleeps", "unittest.__main__.x", "this.x", "venv.__main__.x", "antigravity.geohash", "idlelib.idle.x")
FABRIC = SMALL.replace(
    "  - name: read_document\n",
    """\
  - name: read_document
  - name: acts
    kind: callable
    effect: read_only
    target: TARGET
    description: Acts.
    parameters: {type: object}
""",
).replace("[read_document]", "[read_document, acts]")
LINE = FABRIC.splitlines().index("    target: TARGET") + 1
SAID = "is no tool that the operator names here"
ACTS = """\
import pathlib
pathlib.Path({note!r}).write_text("it was loaded")


def sleeps(**_):
    pathlib.Path({note!r}).write_text("it was called")


sleeps.__fabric_tool__ = True
"""


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a module on the path writes: another program's file. Nothing that acts is loaded before, nor after."""
    (tmp_path / "on-the-path").mkdir()
    found = tmp_path / "victim.txt"
    found.write_text("precious")
    (tmp_path / "on-the-path" / "acting.py").write_text(ACTS.format(note=str(found)))
    monkeypatch.syspath_prepend(str(tmp_path / "on-the-path"))
    for target in TARGETS:
        monkeypatch.delitem(sys.modules, target.rpartition(".")[0], raising=False)
    yield found
    for target in TARGETS:
        sys.modules.pop(target.rpartition(".")[0], None)


def _read(program: Program, browser: Client, text: str) -> object:
    return browser.post("/fabrics/+import", {"source": text})


def _opened(program: Program, browser: Client, text: str) -> object:
    return browser.get("/fabrics/small/draft")


def _published(program: Program, browser: Client, text: str) -> object:
    return browser.post("/fabrics/small/draft/publish", {"step": "0", "act": "publish"})


def _drills(program: Program, browser: Client, text: str) -> object:
    return browser.get("/fabrics/small/draft/drills")


def _lint(program: Program, browser: Client, text: str) -> object:
    return program.post(f"{API}/fabric-lint", {"source": text})


def _dry(program: Program, browser: Client, text: str) -> object:
    return program.post(f"{API}/fabrics", {"source": text, "dry_run": True})


def _sent(program: Program, browser: Client, text: str) -> object:
    return program.post(f"{API}/fabrics", {"source": text})


def _drafted(program: Program, browser: Client, text: str) -> object:
    return program.post(f"{API}/drafts", {"source": text, "replace": True})


def _draft(program: Program, browser: Client, text: str) -> object:
    return program.get(f"{API}/drafts/small")


def _started(program: Program, browser: Client, text: str) -> object:
    return program.post(f"{API}/runs", {"fabric": "small", "text": "go"})


Way = Callable[[Program, Client, str], object]
WAYS: tuple[tuple[Way, int, bool], ...] = (
    (_read, 302, False),
    (_opened, 200, True),
    (_published, 422, True),
    (_drills, 302, False),
    (_lint, 200, True),
    (_dry, 422, True),
    (_sent, 422, True),
    (_drafted, 201, True),
    (_draft, 200, True),
    (_started, 404, False),
)
"""In this order, with the status of the answer, and whether it says what is wrong."""


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_fabric_names_is_never_loaded(target: str, note: Path, program: Program, browser: Client) -> None:
    text, module = FABRIC.replace("TARGET", target), target.rpartition(".")[0]
    for way, status, tells in WAYS:
        answer = way(program, browser, text)
        assert module not in sys.modules, f"{way.__name__} loaded {module}"
        assert note.read_text() == "precious", way.__name__
        assert answer.status_code == status, (way.__name__, answer.content)  # type: ignore[attr-defined]
        assert not tells or SAID in answer.content.decode(), way.__name__  # type: ignore[attr-defined]
    told = program.post(f"{API}/fabric-lint", {"source": text}).json()
    (problem,) = told["problems"]
    assert (problem["path"], problem["line"]) == ("tools.1.target", LINE)
    assert repr(target) in problem["sentence"]
    assert "have the operator add NAME=dotted.path to FABRIC_TOOLS and give NAME" in problem["sentence"]


def test_the_operators_name_is_all_that_is_missing(
    note: Path, program: Program, browser: Client, actor: object
) -> None:
    text = FABRIC.replace("TARGET", "drill-lookup")
    assert program.post(f"{API}/fabric-lint", {"source": text}).json()["publishable"] is True
    assert fabric_publish(actor=actor, source=text).changed  # type: ignore[arg-type]
