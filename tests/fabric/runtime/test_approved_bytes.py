"""The approved bytes are what runs: after any change, be it one byte, nothing is called, and the run says why (H3, docs/specification/durability.md 1.2).

A call that cannot be undone waits for a person. What they approve is bound to its bytes by a digest, and those bytes stand in a chained journal: so an approval of
anything else is no answer to the review, and no worker drives a journal with another byte in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import compile_spec
from fabric.core.values.fingerprint import content_ref, digest, encode, fingerprint
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import Append, Perform, Quarantine, Taken
from fabric.runtime.ports.journal import ClaimedRun, InboxItem
from fabric.runtime.quarantine.verdicts import verdict
from tests.fabric.core.bookings import Desk, at_the_desk, go, travel
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import call, say, summary
from tests.fabric.core.standings import stood
from tests.fabric.runtime.claimed_runs import claimed, stored

ARGS = {
    "to": "Ana Müller",
    "iban": "DE02120300000000202051",
    "usd": 90,
    "memo": "July; see offer 17/b",
    "urgent": False,
}
TOOL = "pay"
OTHER = "the decision was about other content (its digest differs)"


def fabric(names: tuple[str, ...] = (TOOL,), **policy) -> FabricSpec:
    """One worker that may pay, under each of those names."""
    tree = travel(**policy).model_dump(mode="json", by_alias=True)
    (pay,) = [tool for tool in tree["tools"] if tool["name"] == TOOL]
    tree["tools"] = [tool for tool in tree["tools"] if tool["name"] != TOOL] + [{**pay, "name": name} for name in names]
    tree["agents"][0]["tools"] = ["book", *names]
    return FabricSpec.model_validate(tree)


def waiting(args=ARGS, tool: str = TOOL, spec: FabricSpec | None = None, **answer) -> World:
    """A run that asks whether it may pay so."""
    desk = Desk()
    first = say("", call(tool, "call-9", **args), **answer)
    world = go(at_the_desk(spec or fabric(), desk, [first, summary()], tier=Tier.BATCH), desk)
    assert world.review.fact.item == "pre_action"
    return world


def nothing_ran(world: World) -> None:
    """The review stays open, nothing was called, and the journal says why each answer counted for nothing."""
    ignored = world.of(ev.InputIgnored)
    assert ignored
    assert {fact.reason for fact in ignored} == {OTHER}
    assert len(world.run.reviews) == 1
    assert (world.executed, world.of(ev.MutationIntended), world.of(ev.ReviewDecided)) == ([], [], [])


@pytest.fixture(scope="module")
def approved() -> World:
    """The run whose review a person looks at and approves."""
    return waiting()


def shown(world: World) -> bytes:
    """Return what the person was shown, as it is stored."""
    row = next(
        r for r, e in zip(split_rows(world.rows), world.events, strict=True) if isinstance(e.fact, ev.ReviewOpened)
    )
    assert row.payload is not None
    return row.payload


def number(world: World) -> int:
    return next(event.seq for event in world.events if isinstance(event.fact, ev.ReviewOpened))


def flipped(raw: bytes) -> Iterator[bytes]:
    """The same with one bit of one byte changed: each bit of each byte."""
    for at in range(len(raw)):
        for bit in range(8):
            yield raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]


# -- an approval of anything else ------------------------------------------------------------------------------------


def test_the_very_bytes_that_were_approved_run(approved):
    """Else all of these would pass for nothing."""
    world = waiting()
    assert world.review.fact.digest == approved.review.fact.digest, "the same run asks the same"
    world.decide("approve").go()
    assert world.executed == [(TOOL, ARGS)]
    assert world.end.state is RunState.COMPLETED


def test_the_digest_is_over_what_was_shown_and_holds_what_matters(approved):
    content = json.loads(shown(approved))
    assert (content["payload"], content["tool"]) == (ARGS, TOOL)
    assert approved.review.fact.digest == bound_to(approved)
    assert {"spent_usd_micros", "cap_usd_micros"} <= set(content)


def bound_to(world: World, **other: str | int | bytes) -> str:
    """Return what an approval is bound to, of what this run asks but for what is said of it."""
    about: dict[str, Any] = {
        "revision": world.compiled.revision,
        "shown": shown(world),
        "run_id": "run-1",
        "number": number(world),
        "tool": TOOL,
        "args_hash": fingerprint(ARGS),
        "policy": fingerprint(world.spec.policy.model_dump(mode="json")),
    } | other
    call_of_it = digest(about["tool"], about["args_hash"], about["policy"], about["revision"])
    return digest(about["revision"], content_ref(about["shown"]), about["run_id"], about["number"], call_of_it)


def of_others(world: World) -> Iterator[str]:
    """The same of each other revision, run, number, tool, argument and policy that differs in one letter."""
    for name in ("revision", "run_id", "tool", "args_hash", "policy"):
        own = {"revision": world.compiled.revision, "run_id": "run-1", "tool": TOOL}.get(name, fingerprint(ARGS))
        for at in range(len(own)):
            yield bound_to(world, **{name: own[:at] + ("0" if own[at] != "0" else "1") + own[at + 1 :]})
    for other in range(number(world) + 10):
        if other != number(world):
            yield bound_to(world, number=other)


def test_no_other_content_revision_run_or_number_has_its_digest(approved):
    found = [*(bound_to(approved, shown=one) for one in flipped(shown(approved))), *of_others(approved)]
    assert len(found) > 8 * len(shown(approved))
    assert len({*found, approved.review.fact.digest}) == len(found) + 1


def test_an_approval_of_any_of_them_is_no_answer(approved):
    """Of the content each byte once; they reach the run together, so that one claim reads them all."""
    world, raw = waiting(), shown(approved)
    mutated = (raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in range(len(raw)))
    others = [*(bound_to(approved, shown=one) for one in mutated), *of_others(approved)]
    world.inbox += [approval(world, digest=one, input_id=f"other-{n}") for n, one in enumerate(others)]
    world.go()
    assert len(world.of(ev.InputIgnored)) == len(others)
    nothing_ran(world)


def approval(world: World, **other: str) -> InboxItem:
    """An answer of a person who holds every role, as a store brings it."""
    review = world.review.fact
    about: dict[str, Any] = {
        "input_id": "yes",
        "review_id": review.review_id,
        "digest": review.digest,
    } | other
    given = DecisionMade(verb="approve", actor="bob", **about)
    return stood(InboxItem("run-1", given.input_id, INBOX.dump_json(given)))


def changed_arguments() -> dict[str, dict]:
    """Every call that a model could propose whose stored arguments differ from those in one byte."""
    raw, found = encode(ARGS), {}
    for at in range(len(raw)):
        for bit in (0, 1, 5):
            changed = raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
            try:
                args = json.loads(changed)
            except ValueError:
                continue  # No arguments of anything: no agent can propose them.
            if isinstance(args, dict):
                found[changed.decode()] = args
    return found


def test_another_byte_of_the_arguments_is_another_review(approved):
    """The approval of the one is put to each run that would pay otherwise."""
    others = changed_arguments()
    assert len(others) >= len(encode(ARGS))
    for args in others.values():
        world = waiting(args)
        world.decide("approve", digest=approved.review.fact.digest).go()
        nothing_ran(world)


def test_another_byte_of_the_tool_s_name_is_another_review():
    others = [
        name for at in range(len(TOOL)) for bit in range(7) if (name := _letter(at, bit)).isalpha() and name.islower()
    ]
    assert {tuple(a == b for a, b in zip(name, TOOL, strict=True)).index(False) for name in others} == {0, 1, 2}
    spec = fabric((TOOL, *others))
    base = waiting(spec=spec)
    for name in others:
        world = waiting(tool=name, spec=spec)
        world.decide("approve", digest=base.review.fact.digest).go()
        nothing_ran(world)


def _letter(at: int, bit: int) -> str:
    return TOOL[:at] + chr(ord(TOOL[at]) ^ 1 << bit) + TOOL[at + 1 :]


OTHERWISE = {
    "cost": lambda: waiting(input_tokens=51),
    "cap": lambda: waiting(spec=fabric(budget={"run_usd_micros": 10_000_001})),
    "policy": lambda: waiting(spec=fabric(humans={"failure_rounds": 1})),
    "revision": lambda: waiting(spec=fabric().model_copy(update={"title": "Another title"})),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_was_spent_a_cap_a_policy_and_a_revision_are_part_of_what_is_approved(approved, what):
    world = OTHERWISE[what]()
    assert world.content_of(ev.ReviewOpened)[0]["payload"] == ARGS
    world.decide("approve", digest=approved.review.fact.digest).go()
    nothing_ran(world)


# -- what is stored changes once it was approved ---------------------------------------------------------------------


def with_approval(world: World, **changed) -> ClaimedRun:
    """Return what a claim of the run brings once it was approved."""
    return replace(claimed(world), inbox=(approval(world),), revision_id=world.compiled.revision, **changed)


def put_away(world: World, given: ClaimedRun, compiled=None) -> str:
    """Nothing is called and nothing written but that the run is quarantined: what is said of it."""
    effects = RunDriver(compiled or world.compiled).step(Taken(given, "process-9"), world.now)
    (effect,) = effects
    assert isinstance(effect, Quarantine)
    batch = verdict(given, world.now, damage=effect.damage.sentence, compiled=world.compiled)
    assert batch is not None
    assert batch.columns is not None
    assert [row.kind for row in split_rows(batch.rows)] == ["run_quarantined", "review_opened"]
    assert (batch.columns.state, batch.consumed, batch.release) == (RunState.QUARANTINED, (), True)
    assert effect.damage.sentence in batch.columns.reason
    return effect.damage.what


def test_untouched_it_is_approved_and_called(approved):
    effects = RunDriver(approved.compiled).step(Taken(with_approval(approved), "process-9"), approved.now)
    (written,) = [effect for effect in effects if isinstance(effect, Append)]
    assert {"review_decided", "mutation_intended", "call_issued"} <= {
        row.kind for row in split_rows(written.batch.rows)
    }
    assert not [effect for effect in effects if isinstance(effect, Perform)], "an effect before its intent"


@pytest.mark.parametrize("column", ["header", "payload"])
def test_any_byte_of_the_journal(approved, column):
    """The arguments, the tool's name, what was spent, the revision, the review and its digest: each stands in one of these bytes."""
    rows, looked_at = stored(approved.rows), 0
    for at, row in enumerate(rows):
        raw = getattr(row, column) or b""
        for place in range(len(raw)):
            other = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
            tampered = (*rows[:at], replace(row, **{column: other}), *rows[at + 1 :])
            told = put_away(approved, with_approval(approved, rows=tampered))
            assert told == {"header": "changed", "payload": "payload"}[column]
            looked_at += 1
    assert looked_at > 500


def test_the_kind_and_the_version_of_a_row(approved):
    rows = stored(approved.rows)
    for at, row in enumerate(rows):
        for changed in ({"kind": "run_paused"}, {"version": row.version + 1}):
            tampered = (*rows[:at], replace(row, **changed), *rows[at + 1 :])
            assert put_away(approved, with_approval(approved, rows=tampered)) == "changed"


@pytest.mark.parametrize("spec", [fabric(pay={"timeout_s": 6}), fabric(humans={"failure_rounds": 1})])
def test_another_revision_in_the_pinned_one_s_place(approved, spec):
    """A tool of that name that goes elsewhere, or another policy: the row that names the revision is no part of the chain, so it is compared with it."""
    other = compile_spec(spec, prices=approved.prices, evaluators=approved.compiled.evaluators)
    assert other.revision != approved.compiled.revision
    assert put_away(approved, with_approval(approved), other) == "revision"
