"""The loop detectors have names wherever people or programs read of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from django.test import Client
from django.utils.html import strip_tags

from console.forms.drafts.fields import field_at
from console.pages.runs.page import VIEWS
from fabric.core.people.actor import Actor
from fabric.core.spec.policies.loop_limits import LOOP_NAMES, PRESET_NAMES, Detector, LoopDetector
from fabric.core.spec.policies.stages import StageLoops
from fabric.management.commands import evaluate_detectors
from fabric.models import Event
from fabric.services.drafts.changes import draft_of_fabric
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.schema import fabric_schema
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from tests.fabric.services.world import SMALL, ran

LETTERS = re.compile(r"\bdetectors?\W{1,12}[A-I]\b(?!\w)|\b[A-I](?:, [A-I])+\b|(?:^|[\s>])[A-I]: |\b[A-I] to [A-I]\b")
REASONS = Path("docs/reference/reasons.md")


def letters_in(text: str) -> list[str]:
    return LETTERS.findall(strip_tags(text))


@pytest.fixture
def looping(actor: Actor) -> str:
    """A run that a detector stopped."""
    source = SMALL.replace("    provider: scripted\n", "    provider: scripted\n    options: {script: tool_loop}\n")
    return ran(actor, fabric_publish(actor=actor, source=f"{source}tiers: {{default: batch}}\n").name).id


@pytest.mark.parametrize(
    "text", ["detector A stopped it", "Detectors: A, B, C", "A, C: the same call", "B: periods", "the detectors A to I"]
)
def test_a_letter_is_found(text: str) -> None:
    assert letters_in(text)


def test_each_detector_has_one_name() -> None:
    assert set(LOOP_NAMES) == set(get_args(Detector))
    assert set(PRESET_NAMES) == {"flow", "fabro", "ag2"}
    for written, one in LOOP_NAMES.items():
        assert written == one.name.replace(" ", "_").replace("-", "_")


def test_pages_have_names_and_no_letters(browser: Client, actor: Actor, looping: str) -> None:
    draft_of_fabric(actor=actor, name="small")
    events = Event.objects.filter(run_id=looping, kind__in=("reaction_decided", "command_denied"))
    pages = [
        "/protections",
        "/fabrics/small?tab=limits",
        "/fabrics/small/draft?part=limits",
        *(f"/runs/{looping}?view={view}" for view, _ in VIEWS),
        *(f"/runs/{looping}/events/{seq}" for seq in events.values_list("seq", flat=True)),
    ]
    assert len(pages) > 3 + len(VIEWS), "the run was not stopped by a detector"
    texts = {}
    for address in pages:
        answer = browser.get(address)
        assert answer.status_code == 200, address
        texts[address] = answer.content.decode()
        assert letters_in(texts[address]) == [], address
    for one in LOOP_NAMES.values():
        assert one.name in texts["/protections"]
        assert one.sentence in texts["/fabrics/small/draft?part=limits"]


def test_texts_have_names_and_no_letters() -> None:
    assert letters_in(REASONS.read_text()) == []
    assert letters_in(json.dumps(fabric_schema())) == []
    assert letters_in(evaluate_detectors.Command.help) == []
    assert [evaluate_detectors._name_rule(one) for one in LOOP_NAMES] == [one.name for one in LOOP_NAMES.values()]
    for model in (LoopDetector, StageLoops):
        assert [said for field in model.model_fields.values() if letters_in(said := field.description or "")] == []


def test_a_fabric_names_detectors_in_the_order_of_the_table() -> None:
    given = "policy:\n  loop_detector: {detectors: [near_identical_calls, identical_calls]}\n"
    text = fabric_dump(fabric_read(SMALL.replace("policy:\n", given)).spec)
    assert text.index("- identical_calls\n") < text.index("- near_identical_calls\n")
    assert LoopDetector(detectors=list(LOOP_NAMES)) == LoopDetector()


def test_a_name_that_there_is_not_is_said_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="'identical_calls', 'repeated_cycle'"):
        LoopDetector(detectors=["Z"])


def test_the_editor_says_what_is_picked_in_words() -> None:
    policy = {"loop_detector": {"detectors": ["identical_calls", "same_answer"]}}
    given, left = (
        field_at({"policy": one}, "policy.loop_detector.detectors", base={"policy": policy}) for one in (policy, {})
    )
    assert given.picked == ("identical_calls", "same_answer")
    assert (left.placeholder, left.before) == ("all", "identical calls, same answer")
    assert field_at({}, "policy.humans.four_eyes").placeholder == "none"
