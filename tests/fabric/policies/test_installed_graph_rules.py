"""Conditions and targets of an installation's own, from the setting to the run: as docs/how-to/add-graph-rules.md shows them, played by the worker itself."""

from __future__ import annotations

import json
import re
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from console.celery import refuse_unusable_providers
from console.launch.processes.data_directory import ROOT
from console.launch.processes.errors import StartRefused as NotStarted
from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.checks import fabric_lint
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.installation import facts as here
from simulator.scenarios.play.cells import drill
from tests.fabric.services.world import SMALL, actor, ran, store

__all__ = ["actor", "store"]

SECTION = (ROOT / "docs/how-to/add-graph-rules.md").read_text()


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    return found


FABRIC = (
    SMALL.replace("name: small", "name: led")
    .replace(
        "name: planner\n    model: script\n    instructions: Plan.",
        "name: ana\n    model: script\n    instructions: Speak.",
    )
    .replace("name: reader", "name: ben")
    .replace(
        "topology:\n  planner: planner\n  workers: [reader]\n",
        "  - name: cleo\n    model: script\n    instructions: Speak.\n" + block("yaml"),
    )
)


@pytest.fixture
def acme(settings, tmp_path, monkeypatch):
    """The module of the documentation, named by the setting."""
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "routing.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    (named,) = re.findall(r"FABRIC_GRAPH_RULES=(\S+)", block("sh"))
    settings.FABRIC_GRAPH_RULES = (named,)
    yield named
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _another_process():
    """Nothing that a process keeps is there, before and after."""
    forget()
    yield
    forget()


def forget():
    for kept in (here._registry, wiring.store, wiring.compile_published, wiring._revision):
        kept.cache_clear()


def test_the_example_of_the_documentation_leads_a_conversation(acme, actor):
    run = ran(actor, fabric_publish(actor=actor, source=FABRIC).name)
    events = run_events(actor, run.id)
    assert run.state is RunState.COMPLETED
    assert [one.fact["agent"] for one in events if one.kind == "turn_opened"] == ["ana", "cleo"]
    assert [one.fact["close_reason"] for one in events if one.kind == "speaker_chosen"] == ["", "enough"]


@pytest.mark.parametrize(
    ("was", "instead", "path", "sentence"),
    [
        (
            "name: turns_taken",
            "name: turns_token",
            "topology.transitions.0.when",
            "no condition is registered as 'turns_token'; there are: turns_taken",
        ),
        (
            "args: {at_least: 2}",
            "args: {at_least: two}",
            "topology.transitions.0.when",
            "at_least is missing; give a whole number of turns",
        ),
        (
            "name: previous_participant",
            "name: participant",
            "topology.transitions.1.then",
            "no target is registered as 'participant'; there are: previous_participant",
        ),
    ],
)
def test_what_is_not_registered_or_refuses_its_arguments_is_not_published(acme, actor, was, instead, path, sentence):
    found = fabric_lint(actor=actor, source=FABRIC.replace(was, instead))
    (problem,) = found.problems
    assert (problem.path, problem.sentence) == (path, sentence)
    with pytest.raises(Refused, match="is registered as|at_least is missing"):
        fabric_publish(actor=actor, source=FABRIC.replace(was, instead))
    assert fabric_lint(actor=actor, source=FABRIC).publishable


def test_what_is_odd_about_rules_of_ones_own_is_told_as_of_any(acme, actor):
    first = "    - when: {kind: always}\n      then: {kind: stay}\n"
    found = fabric_lint(actor=actor, source=FABRIC.replace("  transitions:\n", f"  transitions:\n{first}"))
    told = [(one.path, one.sentence) for one in (*found.problems, *found.warnings) if "transitions" in one.path]
    assert [path for path, _ in told] == ["topology.transitions.1", "topology.transitions.2"]
    assert all("(always) is tried before it" in sentence for _, sentence in told)


def test_where_nothing_is_registered_the_fabric_is_not_published(settings, actor):
    settings.FABRIC_GRAPH_RULES = ()
    with pytest.raises(Refused, match="no condition is registered as 'turns_taken'; there are: none"):
        fabric_publish(actor=actor, source=FABRIC)


def test_what_is_registered_no_more_is_a_failure_that_names_it_and_never_an_end(acme, settings, actor):
    name = fabric_publish(actor=actor, source=FABRIC).name
    settings.FABRIC_GRAPH_RULES = ()
    wiring.compile_published.cache_clear()
    wiring._revision.cache_clear()
    run = ran(actor, name)
    (decided,) = [one.fact for one in run_events(actor, run.id) if one.kind == "reaction_decided"]
    assert (run.state, decided["cause"]["cause"]) == (RunState.FAILED, "bad_configuration")
    assert (
        "the installation's condition 'turns_taken' gave no answer: no condition is registered as 'turns_taken'"
        in run.reason
    )


def test_drills_of_the_fabric_are_led_by_it_too(acme):
    spec = fabric_read(FABRIC).spec
    assert drill(spec, FailureType.NO_PROGRESS, Tier.BATCH).verdict == "pass"


def test_it_is_listed(acme, capsys):
    call_command("graph", "registered")
    assert capsys.readouterr().out.split() == ["conditions", "turns_taken", "targets", "previous_participant"]
    call_command("graph", "registered", "--json")
    assert json.loads(capsys.readouterr().out) == {"conditions": ["turns_taken"], "targets": ["previous_participant"]}


def test_what_cannot_be_had_is_refused_by_whatever_starts(settings):
    settings.FABRIC_GRAPH_RULES = ("no.such.RULES",)
    sentence = "FABRIC_GRAPH_RULES has 'no.such.RULES', which cannot be imported (ModuleNotFoundError: No module named 'no'): correct it"
    with pytest.raises(ImproperlyConfigured) as refused:
        wiring.refuse_unusable_rules()
    assert str(refused.value) == sentence
    with pytest.raises(NotStarted) as stopped:
        refuse_unusable_providers()
    assert str(stopped.value) == f"{sentence}."
