"""Functions of an installation's own, from the setting to the fabric: as docs/how-to/add-python-functions.md shows them."""

from __future__ import annotations

import re
import sys

import pytest

from console.celery import refuse_unusable_providers
from console.launch.processes.data_directory import ROOT
from console.launch.processes.errors import StartRefused as NotStarted
from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.checks import fabric_lint
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.installation import facts as here
from fabric.tools.functions import named_tools as named
from fabric.tools.runner import ToolRunner
from tests.fabric.services.world import SMALL, actor, ran, store
from tests.fabric.tools.asking import run

__all__ = ["actor", "store"]

SECTION = (ROOT / "docs/how-to/add-python-functions.md").read_text()


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    return found


FABRIC = SMALL.replace("tools:\n  - name: read_document\n", f"{block('yaml')}  - name: read_document\n", 1).replace(
    "[read_document]", "[read_document, book]"
)


@pytest.fixture
def acme(settings, tmp_path, monkeypatch):
    """The module of the documentation, named by the setting."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").touch()
    (tmp_path / "acme" / "rooms.py").write_text(block("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (named_there,) = re.findall(r"FABRIC_TOOLS=(\S+)", block("sh"))
    settings.FABRIC_TOOLS = dict(pair.split("=") for pair in named_there.split(","))
    settings.FABRIC_TOOL_VARIABLES = ("ROOMS_KEY",)
    monkeypatch.setenv("ROOMS_KEY", "sesame")
    yield
    named._build_tools.cache_clear()
    for module in ("acme.rooms", "acme"):
        sys.modules.pop(module, None)


def test_the_fabric_of_the_documentation_is_published_and_its_function_called(acme, actor):
    assert fabric_lint(actor=actor, source=FABRIC).problems == ()
    tools = {tool.name: tool for tool in fabric_read(FABRIC).spec.tools}
    runner = ToolRunner(permits=here.permits())
    assert run(tools["book"], {"room": "4"}, runner).result == {"booked": "4", "key": "key-1"}
    assert run(tools["cancel"], {"key": "k"}, runner).result == {"cancelled": "k", "signed_in": True}
    runner.close()


@pytest.mark.parametrize(
    ("before", "after", "path", "line"),
    [
        ("target: book-room", "target: acme.rooms.book", "tools.0.target", "target: acme"),
        ("effect: mutating", "effect: idempotent", "tools.0.effect", "effect: idempotent"),
        ("compensation: cancel", "compensation: other", "tools.0.compensation", "compensation: other"),
    ],
)
def test_each_refusal_has_its_field_and_line(acme, actor, before, after, path, line):
    other = "  - {name: other, kind: callable, effect: idempotent, target: paper-release, description: D, parameters: {type: object}}\n"
    text = FABRIC.replace(before, after, 1).replace("  - name: read_document\n", f"{other}  - name: read_document\n", 1)
    found = [one for one in fabric_lint(actor=actor, source=text).problems if one.path == path]
    assert len(found) >= 1
    assert line in text.splitlines()[found[0].line - 1]


CALLING = (
    SMALL.replace(
        "    provider: scripted\n",
        "    provider: scripted\n    options: {agents: {reader: {calls: [[{tool: add, args: {a: 2}}]]}}}\n",
    )
    .replace(
        "tools:\n  - name: read_document\n",
        "tools:\n  - {name: add, kind: callable, target: sum, description: Adds., parameters: {type: object}}\n",
    )
    .replace("[read_document]", "[add]")
)


def test_a_name_that_went_after_publication_is_refused_at_the_call(settings, actor, store):
    settings.FABRIC_TOOLS = {"sum": "tests.fabric.tools.functions.sample_tools.add"}
    name = fabric_publish(actor=actor, source=CALLING).name
    first = run_events(actor, ran(actor, name).id)
    assert [one.fact["error"] for one in first if one.kind == "tool_answered"] == [False]
    settings.FABRIC_TOOLS = {}
    second = run_events(actor, ran(actor, name).id)
    assert [one for one in second if one.kind == "tool_answered"] == []
    (failed,) = [one.fact for one in second if one.kind == "attempt_failed"]
    assert failed["cause"] == "bad_configuration"
    assert failed["message"].startswith("tool 'add': 'sum' is no tool that the operator names here; there are: drill-")


def test_a_name_without_a_tool_keeps_a_worker_from_starting(settings):
    settings.FABRIC_TOOLS = {"x": "no.such.function"}
    sentence = "FABRIC_TOOLS has x=no.such.function, which is no tool (no.such does not import: No module named 'no' (ModuleNotFoundError)): correct it."
    with pytest.raises(NotStarted) as refused:
        refuse_unusable_providers()
    assert refused.value.sentence == sentence
