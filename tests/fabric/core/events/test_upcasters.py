"""Released shapes never change under their version, every older version has its way up, and a newer one is refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import get_args

import pytest

from fabric.core import events
from fabric.core.events import envelope, inputs
from fabric.core.events.envelope import upcast
from fabric.core.events.inputs import INBOX, InboxInput, NewerInput
from fabric.core.events.parts import Check, GateResult
from fabric.core.values.flow import FORMAT, Stage, StageOutcome
from fabric.core.values.units import JSON
from tests.data import event_shapes


def test_every_shape_is_written_down():
    assert event_shapes.wrong(event_shapes.recorded(), event_shapes.current()) == []


def test_no_format_is_above_the_programs():
    formats = {one["format"] for one in event_shapes.recorded().values()}
    assert max(formats) == FORMAT
    assert min(formats) == 1


def changed(change: Callable[[JSON], JSON]) -> dict[str, JSON]:
    now = event_shapes.current()
    name = "event cancel_accepted 1"
    now[name] = {**now[name], "shape": change(now[name]["shape"])}
    return now


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda shape: {**shape, "note": {"default": "", "type": "str"}},
            "give it version 2, add UPCAST['cancel_accepted', 1] and SINCE['cancel_accepted'] in fabric/core/events/envelope.py, raise FORMAT",
        ),
        (lambda shape: {**shape, "reason": {"default": "none", "type": "str"}}, "has another shape under version 1"),
        (lambda shape: {"actor": shape["actor"]}, "has another shape under version 1"),
    ],
)
def test_a_released_shape_that_changed_is_said_with_what_to_do(change, sentence):
    [found] = event_shapes.wrong(event_shapes.recorded(), changed(change))
    assert sentence in found


def test_a_shape_that_no_release_has_written_may_change():
    now = changed(lambda shape: {"actor": shape["actor"]})
    found = event_shapes.wrong(event_shapes.recorded(), now, frozenset())
    assert found == ["event cancel_accepted is not written down as it is: run python -m tests.data.event_shapes"]


def test_nothing_changes_what_a_release_wrote(monkeypatch, tmp_path):
    file = tmp_path / "shapes.json"
    monkeypatch.setattr(event_shapes, "FILE", file)
    known = changed(lambda shape: {"actor": shape["actor"]}) | {"event forgotten 1": {"format": 1, "shape": {}}}
    file.write_text(json.dumps(known))
    with pytest.raises(SystemExit, match="event cancel_accepted has another shape under version 1"):
        event_shapes.write()
    assert event_shapes.recorded() == known
    event_shapes.write(frozenset())
    assert event_shapes.recorded() == event_shapes.current()


def test_a_new_kind_is_said_with_what_to_do():
    known = event_shapes.recorded()
    del known["input decision_made 1"]
    [found] = event_shapes.wrong(known, event_shapes.current())
    assert found.startswith("input decision_made version 1 is new: raise FORMAT in fabric/core/values/flow.py")


def test_a_choice_more_is_another_shape():
    cause = event_shapes.shape(envelope.fact_class("step_failed"))["cause"]
    assert "rate_limit" in cause


def test_the_formats_of_both_lists_agree():
    now = event_shapes.current()
    now["event run_ended 1"] = {**now["event run_ended 1"], "format": 7}
    [found] = event_shapes.wrong(event_shapes.recorded(), now)
    assert found == "event run_ended version 1 came with format 1, and SINCE says 7: correct it"


# -- the way up --------------------------------------------------------------------------------------------------------


def test_every_older_version_has_its_step():
    events = {(kind, step) for kind in envelope.KINDS for step in range(1, envelope.fact_class(kind).version)}
    assert set(envelope.UPCAST) == events
    asked = {
        (cls.__dataclass_fields__["kind"].default, step)
        for cls in get_args(InboxInput)
        for step in range(1, inputs.latest(cls))
    }
    assert set(envelope.UPCAST_INPUT) == asked


def test_every_older_version_was_recorded():
    recorded = event_shapes.recorded()
    assert all(f"event {kind} {version}" in recorded for kind, version in envelope.UPCAST)
    assert all(f"input {kind} {version}" in recorded for kind, version in envelope.UPCAST_INPUT)


def name_results(header: JSON) -> JSON:
    """The step of the example: a gate's check said only whether it had passed, and says what came of it now."""
    for check in (header["d"].get("gate") or {}).get("checks", ()):
        check["result"] = "passed" if check.pop("passed") else "failed"
    return header


LEFT = events.StageLeft(
    stage=Stage.PLAN,
    epoch=0,
    outcome=StageOutcome.ENDED,
    gate=GateResult(
        gate="post",
        checks=(Check(name="schema", result="passed"), Check(name="oracle", result="failed", problems=("no answer",))),
    ),
)
"""A fact of which version 1 had another shape, once this program writes version 2."""


@pytest.fixture
def second_version(monkeypatch):
    """This program, had it written stages' ends as version 2 from format 2 on."""
    monkeypatch.setattr(events.StageLeft, "version", 2)
    monkeypatch.setitem(envelope.UPCAST, ("stage_left", 1), name_results)
    monkeypatch.setitem(envelope.SINCE, "stage_left", 2)


def older_header() -> bytes:
    header = json.loads(envelope.to_row(envelope.Event(7, 1_000, LEFT), None, b"").header)
    for check in header["d"]["gate"]["checks"]:
        check["passed"] = check.pop("result") == "passed"
    return json.dumps(header).encode()


def test_a_fact_of_an_older_version_is_read_as_todays(second_version):
    assert envelope.from_row(7, "stage_left", 1, older_header()).fact == LEFT
    row = envelope.to_row(envelope.Event(7, 1_000, LEFT), None, b"")
    assert (row.version, envelope.from_row(7, row.kind, row.version, row.header).fact) == (2, LEFT)


def test_a_version_above_todays_is_refused():
    header = envelope.to_row(envelope.Event(7, 1_000, LEFT), None, b"").header
    with pytest.raises(envelope.UnknownEvent, match="event 7 is stage_left version 2; this program knows version 1"):
        envelope.from_row(7, "stage_left", 2, header)


def test_a_changed_shape_raises_the_format_of_what_has_it(second_version):
    assert envelope.find_format(["run_started", "stage_left"]) == 2
    assert envelope.find_format(["run_started"]) == 1


def _completed(header: JSON) -> JSON:
    header["d"]["why"] = "no reason was given"
    return header


def test_steps_are_chained():
    table = {("stage_left", 1): name_results, ("stage_left", 2): _completed}
    raised = upcast(json.loads(older_header()), "stage_left", 1, 3, table)
    assert [check["result"] for check in raised["d"]["gate"]["checks"]] == ["passed", "failed"]
    assert raised["d"]["why"] == "no reason was given"
    assert upcast({"d": {}}, "stage_left", 2, 3, table)["d"]["why"] == "no reason was given"
    assert upcast(raised, "stage_left", 3, 3, table) is raised
    with pytest.raises(KeyError):
        upcast(raised, "run_ended", 1, 2, table)


# -- inbox rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b'{"kind":"teleport","version":1}', NewerInput, "kind 'teleport' is not known to this version: upgrade it"),
        (
            b'{"kind":"cancel_requested","version":9,"input_id":"x","actor":"a"}',
            NewerInput,
            "an inbox row is cancel_requested version 9; this program knows version 1: upgrade it",
        ),
        (b"\x00nonsense", ValueError, "an inbox row cannot be read"),
        (b"[]", ValueError, "an inbox row cannot be read"),
        (b"{}", ValueError, "it has no kind and version, but None and None"),
        (b'{"kind":"cancel_requested","version":0}', ValueError, "it has no kind and version, but 'cancel_requested' and 0"),
        (b'{"kind":"cancel_requested","version":1,"actor":"a"}', ValueError, "an inbox row cannot be read"),
        (b'{"kind":"cancel_requested","actor":"a"}', ValueError, "it has no kind and version, but 'cancel_requested' and None"),
        (b'{"kind":7,"version":1}', ValueError, "it has no kind and version, but 7 and 1"),
    ],
)  # fmt: skip
def test_an_inbox_row_that_is_not_ours_is_refused(body, kind, sentence):
    with pytest.raises(kind, match=sentence.replace("(", r"\(")) as caught:
        INBOX.validate_json(body)
    assert isinstance(caught.value, NewerInput) is (kind is NewerInput)


def test_the_format_of_what_is_written():
    assert envelope.find_format(()) == 1
    assert envelope.find_format(envelope.KINDS) <= FORMAT
    assert INBOX.format_of(inputs.CancelRequested(input_id="x", actor="a")) >= 1
