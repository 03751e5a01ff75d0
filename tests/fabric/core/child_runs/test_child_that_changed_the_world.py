"""A child run that changed the world is not tried again by itself. Replans and people start a new one, which has keys of its own."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.child_runs import children
from fabric.core.events.envelope import split_rows
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import tree
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import ASKED, whole
from tests.fabric.core.scripts import asks, call, fails, gives, planned, summary
from tests.fabric.core.topologies.fabrics import hierarchy, under

TOOLS = [{"name": "book", "effect": "mutating", "compensation": "unbook"}, {"name": "unbook", "effect": "idempotent"}]
DESK = {"book": gives({"id": 1}), "unbook": gives({})}
BOOKS = asks(call("book", q="flight"))
FINE = summary("Fine.")
GRUDGE = summary("An old grudge.")
GONE = fails(Cause.BAD_REQUEST, "no").after(5.0)
WHY = "its child run changed the world, so it is not retried automatically"
NOT_HANDED_OVER = "its child run changed the world, so no other agent does its part again"


def rows(*rungs):
    return {tier: {"rungs": [dict(zip(("reaction", "times"), rung, strict=False)) for rung in rungs]} for tier in Tier}


SURFACES = rows(("surface",))


def done(family, tool="book"):
    return [name for name, _, _ in family.executed].count(tool)


def keys(*members):
    return {fact.key for member in members for fact in member.of(ev.MutationIntended)}


def undo_list(member):
    return [(one.tool, str(one.status)) for one in member.run.saga.mutations]


def skips(family):
    return [(fact.reaction, fact.reason) for fact in family.root.of(ev.RungSkipped)]


def changed(family):
    return [fact.changed_world for fact in family.root.of(ev.ChildAnswered)]


def approval(family):
    """Return what the root's first review says of an approval."""
    [asked] = [row for row in split_rows(family.root.rows) if row.kind == "review_opened"]
    return json.loads(asked.payload)["approve"]


def resting(family):
    return bool(family.root.run.reviews) and not family.root.run.family.alive


def led(*ann, ed=(GRUDGE, FINE), last="surface", desk=DESK, teams=None, policy=None, root=None, **table):
    """A team in which ann books; its result may not hold a grudge, and is tried again once where that may be."""
    made = hierarchy(
        root or under("lead"),
        teams or {"lead": under("ann", aggregator="ed")},
        table={"unsafe_output": rows(("retry", 1), (last,)), "provider_failure": SURFACES, **table},
        gates={"guardrails": [{"places": ["fan_out"], "patterns": [{"name": "tales", "pattern": "grudge"}]}]},
        tools=("book",),
        agents={"ann": {"tools": ["book"]}},
        **(policy or {}),
    )
    spec = FabricSpec.model_validate({**made.model_dump(mode="json", exclude_unset=True), "tools": TOOLS})
    said, wrote = iter(ann), iter(ed)
    script = {"ann": lambda command: next(said), "ed": lambda command: next(wrote), "paul": planned(1, agent="lead")}
    return Household(spec, script | desk).start()


# -- the retry rung --------------------------------------------------------------------------------------------------


def test_a_child_that_changed_nothing_is_tried_again():
    family = led(FINE, FINE).go()
    whole(family)
    assert (family.end.state, len(family.children), changed(family)) == (RunState.COMPLETED, 2, [False, False])
    assert skips(family) == []


@pytest.mark.parametrize("last", ["surface", "abort"])
def test_the_retry_of_one_that_changed_the_world_is_skipped_and_the_cell_goes_on(last):
    family = led(BOOKS, FINE, last=last).go()
    whole(family)
    assert (len(family.children), changed(family)) == (1, [True])
    assert skips(family)[0] == ("retry", WHY)
    assert family.end.state in (RunState.FAILED, RunState.ABORTED)
    assert (done(family), done(family, "unbook")) == (1, 1)


HANDS_OVER = rows(("handover", 1), ("surface",))


@pytest.mark.parametrize(("first", "does"), [(BOOKS, False), (FINE, True)])
def test_the_part_of_a_child_that_changed_the_world_is_not_handed_over_and_that_of_another_is(first, does):
    boss = {"boss": summary("The boss did it.")}
    family = led(first, FINE, root=under("lead", handover="boss"), unsafe_output=HANDS_OVER, desk=DESK | boss).go()
    whole(family)
    assert (("handover", NOT_HANDED_OVER) in skips(family)) is not does
    assert (family.end.state is RunState.COMPLETED) is does
    assert len(family.children) == 1


def test_a_person_s_approval_makes_a_new_child_with_keys_of_its_own_and_both_changes_stay_on_the_list():
    family = led(BOOKS, FINE, BOOKS, FINE, schema_grounding_fail=ASKED).go(until=resting)
    assert skips(family)[0] == ("retry", WHY)
    assert "in a new child run, which may change the world again" in approval(family)
    family.decide("root", "approve")
    whole(family)
    first, second = family.children
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 0)
    assert keys(first).isdisjoint(keys(second))
    assert undo_list(family.root) == [("book", "executed")] * 2


def test_what_both_children_did_is_undone_the_newest_first_where_the_run_ends_badly():
    family = led(BOOKS, FINE, BOOKS, FINE, ed=(GRUDGE, GRUDGE), schema_grounding_fail=ASKED).go(until=resting)
    family.decide("root", "approve", until=resting)
    family.decide("root", "reject")
    whole(family)
    first, second = family.children
    undone = [fact.of_key for fact in family.root.of(ev.CompensationAnswered)]
    assert family.end.state is RunState.ABORTED
    assert undone == [*keys(second), *keys(first)]
    assert {status for _, status in undo_list(family.root)} == {"undone"}


# -- what counts as a change -----------------------------------------------------------------------------------------


def test_what_was_undone_counts_as_changed():
    family = led(BOOKS, GONE, ed=(), provider_failure=rows(("retry", 1), ("surface",)))
    family.go()
    whole(family)
    assert (done(family), done(family, "unbook"), changed(family)) == (1, 1, [True])


def test_an_unknown_outcome_counts_as_changed_and_one_that_was_refused_does_not():
    lost = fails(Cause.TIMEOUT, "nothing came", outcome=Outcome.UNKNOWN)
    refused = gives(error="sold out")
    for says, counts in ((lost, True), (refused, False)):
        family = led(BOOKS, FINE, FINE, FINE, desk=DESK | {"book": says}).go(until=resting)
        while family.root.run.reviews or any(one.run.reviews for one in family.children):
            asker = next(one for one in family.runs.values() if one.run.reviews)
            family.decide(asker.run_id, "reject")
        whole(family)
        assert changed(family)[0] is counts


@pytest.mark.parametrize("began", [True, False])
def test_a_child_that_cannot_be_folded_counts_as_changed_once_it_has_started(began):
    family = led(FINE, FINE, ed=(FINE,))
    family.go(until=lambda it: bool(it.children) and bool(it.children[0].run.started_at) == began)
    child = family.children[0]
    family.poison(child.run_id)
    child.damage = "event 3 is missing" if began else ""
    family.decide("root", "reject")
    assert changed(family)[0] is began


def test_what_a_run_two_below_changed_counts_too():
    family = led(BOOKS, FINE, teams={"lead": under("deep", aggregator="ed"), "deep": under("ann")})
    family.go()
    whole(family)
    assert (len(family.children), changed(family)) == (2, [True])
    assert skips(family)[0] == ("retry", WHY)


# -- slices, nodes and replans ---------------------------------------------------------------------------------------


def sliced(*said):
    """Ten briefs in three slices; the first branch of all books."""
    limits = {"fan_out_inline_max": 4, "sub_agents_alive": 64}
    table = {"schema_grounding_fail": ASKED, "provider_failure": SURFACES}
    made = tree(table=table, fan_in={"mode": "quorum", "k": 10}, tools=("book",), limits=limits)
    script = {}
    for number, answers in enumerate(said):
        left = list(answers)
        child = children.build_id("root", f"fan_out.0.e0.r{number}.run")
        script[f"worker@{child}"] = lambda command, left=left: (
            left.pop(0) if left and command.step_id.startswith("fan_out.0.") else FINE
        )
    spec = FabricSpec.model_validate({**made, "tools": TOOLS})
    return Household(spec, {"planner": planned(10), "worker": FINE, **DESK, **script}).start()


def test_a_slice_that_a_person_lets_be_tried_again_has_keys_of_its_own():
    family = sliced((BOOKS, GONE), (BOOKS, FINE)).go(until=resting)
    family.decide("root", "approve")
    whole(family)
    first, again = family.children[0], family.children[-1]
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 0)
    assert keys(first).isdisjoint(keys(again))
    assert undo_list(family.root) == [("book", "executed")] * 2


@pytest.mark.parametrize(("first", "again"), [(BOOKS, False), (FINE, True)])
def test_the_node_retry_of_a_child_that_changed_the_world_is_skipped_and_that_of_another_is_not(first, again):
    """The team's aggregator is down for as long as one call is tried."""
    nodes = {"fan_out": {"retry_policy": "linear"}, "fan_in": {"retry_policy": "none"}}
    policy = {"retry_layers": {"preset": "fabro", "stages": nodes}}
    down = fails(Cause.SERVER_ERROR, "down", outcome=Outcome.REJECTED)
    table = {"provider_failure": SURFACES, "unsafe_output": SURFACES}
    family = led(first, FINE, FINE, ed=[*[down] * 4, FINE], policy=policy, **table).go()
    whole(family)
    assert (("retry_node", WHY) in skips(family)) is not again
    assert len(family.children) == 1 + again


def test_a_replan_undoes_first_and_starts_a_new_child_with_keys_of_its_own():
    again = rows(("replan", 1), ("surface",))
    family = led(BOOKS, FINE, BOOKS, FINE, root=under("lead", planner="paul"), unsafe_output=again).go()
    whole(family)
    first, second = family.children
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 1)
    assert keys(first).isdisjoint(keys(second))
    assert undo_list(family.root) == [("book", "undone"), ("book", "executed")]
