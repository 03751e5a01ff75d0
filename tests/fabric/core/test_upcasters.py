"""Shapes never change under their version, every older version has its way up, and a newer one is refused with a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from fabric.core import envelope, inputs, upcasters
from fabric.core.flow import FORMAT
from fabric.core.inputs import INBOX, InboxInput, NewerInput
from fabric.core.upcasters import upcast
from tests import event_shapes

JSON = Any


def test_no_shape_changed_under_its_version():
    assert event_shapes.wrong(event_shapes.recorded(), event_shapes.current()) == []


def test_no_format_is_above_the_programs():
    formats = {one["format"] for one in event_shapes.recorded().values()}
    assert max(formats) == FORMAT
    assert min(formats) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda shape: {**shape, "note": {"default": "", "type": "str"}},
            "give it version 2, add UPCAST['cancel_accepted', 1] and SINCE['cancel_accepted'] in fabric/core/upcasters.py, raise FORMAT",
        ),
        (lambda shape: {**shape, "reason": {"default": "none", "type": "str"}}, "has another shape under version 1"),
        (lambda shape: {"actor": shape["actor"]}, "has another shape under version 1"),
    ],
)
def test_a_changed_shape_is_said_with_what_to_do(change, sentence):
    now = event_shapes.current()
    name = "event cancel_accepted 1"
    now[name] = {**now[name], "shape": change(now[name]["shape"])}
    [found] = event_shapes.wrong(event_shapes.recorded(), now)
    assert sentence in found


def test_a_new_kind_is_said_with_what_to_do():
    known = event_shapes.recorded()
    del known["input decision_made 6"]
    [found] = event_shapes.wrong(known, event_shapes.current())
    assert found.startswith("input decision_made version 6 is new: raise FORMAT in fabric/core/flow.py")


def test_a_choice_more_is_another_shape():
    cause = event_shapes.shape(envelope.fact_class("step_failed"))["cause"]
    assert "rate_limit" in cause


def test_the_formats_of_both_lists_agree():
    now = event_shapes.current()
    now["event run_ended 2"] = {**now["event run_ended 2"], "format": 7}
    [found] = event_shapes.wrong(event_shapes.recorded(), now)
    assert found == "event run_ended version 2 came with format 12, and SINCE says 7: correct it"


# -- the way up --------------------------------------------------------------------------------------------------------


def test_every_older_version_has_its_step():
    events = {(kind, step) for kind in envelope.KINDS for step in range(1, envelope.fact_class(kind).version)}
    assert set(upcasters.UPCAST) == events
    asked = {
        (cls.__dataclass_fields__["kind"].default, step)
        for cls in get_args(InboxInput)
        for step in range(1, inputs.latest(cls))
    }
    assert set(upcasters.UPCAST_INPUT) == asked


def test_every_older_version_was_recorded():
    recorded = event_shapes.recorded()
    assert all(f"event {kind} {version}" in recorded for kind, version in upcasters.UPCAST)
    assert all(f"input {kind} {version}" in recorded for kind, version in upcasters.UPCAST_INPUT)


def _renamed(header: JSON) -> JSON:
    header["d"]["who"] = header["d"].pop("actor")
    return header


def _completed(header: JSON) -> JSON:
    header["d"]["why"] = "unknown to " + header["d"]["who"]
    return header


def test_steps_are_chained():
    table = {("cancel_accepted", 1): _renamed, ("cancel_accepted", 2): _completed}
    header = {"e": [1, "", "", 0], "d": {"actor": "ann"}}
    raised = upcast(json.loads(json.dumps(header)), "cancel_accepted", 1, 3, table)
    assert raised == {"e": [1, "", "", 0], "d": {"who": "ann", "why": "unknown to ann"}}
    assert upcast({"d": {"who": "bob"}}, "cancel_accepted", 2, 3, table)["d"]["why"] == "unknown to bob"
    assert upcast(header, "cancel_accepted", 3, 3, table) is header
    with pytest.raises(KeyError):
        upcast(header, "run_ended", 1, 2, table)


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
        (b"{}", ValueError, "it has no kind and version, but None and 1"),
        (b'{"kind":"cancel_requested","version":0}', ValueError, "it has no kind and version, but 'cancel_requested' and 0"),
        (b'{"kind":"cancel_requested","version":1,"actor":"a"}', ValueError, "an inbox row cannot be read"),
        (b'{"kind":7,"version":1}', ValueError, "it has no kind and version, but 7 and 1"),
    ],
)  # fmt: skip
def test_an_inbox_row_that_is_not_ours_is_refused(body, kind, sentence):
    with pytest.raises(kind, match=sentence.replace("(", r"\(")) as caught:
        INBOX.validate_json(body)
    assert isinstance(caught.value, NewerInput) is (kind is NewerInput)


def test_an_input_without_a_version_is_of_the_first():
    given = inputs.CancelRequested(input_id="x", actor="a")
    body = json.loads(INBOX.dump_json(given))
    del body["version"]
    assert INBOX.validate_json(json.dumps(body).encode()) == given
    assert replace(given, reason="r") != given


def test_the_format_of_what_is_written():
    assert envelope.format_of(()) == 1
    assert envelope.format_of(envelope.KINDS) <= FORMAT
    assert INBOX.format_of(inputs.CancelRequested(input_id="x", actor="a")) >= 1
