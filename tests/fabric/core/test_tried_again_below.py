"""Changes to the world in child runs that are tried once more: what was done is not done twice, and what was undone is not asked for under its old key."""

from __future__ import annotations

import pytest

from fabric.core import children
from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.frozen import replace
from fabric.core.inputs import DecisionMade
from fabric.core.mutation_keys import mutation_key
from fabric.core.saga import key_of
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import tree
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import ASKED, whole
from tests.fabric.core.scripts import asks, call, fails, gives, planned, summary
from tests.fabric.core.topologies.fabrics import hierarchy, under

SURFACES = {tier: {"rungs": [{"reaction": "surface"}]} for tier in Tier}
TOOLS = [{"name": "book", "effect": "mutating", "compensation": "unbook"}, {"name": "unbook", "effect": "idempotent"}]
DESK = {"book": gives({"id": 1}), "unbook": gives({})}
GONE = fails(Cause.BAD_REQUEST, "no").after(5.0)
BOOKS = asks(call("book", q="flight"))
NOTHING = (summary("Nothing."),)


def resting(family):
    return bool(family.root.run.questions) and not family.root.run.family.alive


def done(family, tool="book"):
    return [name for name, _, _ in family.executed].count(tool)


def keys(family):
    return [fact.key for member in family.runs.values() for fact in member.of(ev.MutationIntended)]


def undo_list(member):
    return [(one.tool, str(one.status)) for one in member.run.saga.mutations]


# -- slices --


def cut(inline):
    """Ten briefs, of which the first one of all books; with room for so many in the run itself."""
    table = {"schema_grounding_fail": ASKED, "provider_failure": SURFACES}
    limits = {"fan_out_inline_max": inline, "sub_agents_alive": 64}
    made = tree(table=table, fan_in={"mode": "quorum", "k": 10}, tools=("book",), limits=limits)
    return FabricSpec.model_validate({**made, "tools": TOOLS})


def first_branch(*answers):
    """What the first branch of a run says, one after another; all others found something."""
    left = list(answers)
    return lambda command: left.pop(0) if command.step_id.startswith("fan_out.0.") and left else summary("Found.")


FIRST, SECOND = (children.id_of("root", f"fan_out.0.e0.r{n}.run") for n in (0, 1))


def sliced(*again, failed=(BOOKS, GONE)):
    """The first of a cut fan-out's briefs books and fails, and a person lets it be tried once more."""
    script = {f"worker@{FIRST}": first_branch(*failed), f"worker@{SECOND}": first_branch(*again)}
    family = Household(cut(4), {"planner": planned(10), "worker": summary("Found."), **DESK, **script}).start()
    family.go(until=resting)
    family.decide("root", "approve")
    whole(family)
    return family


def test_a_slice_s_branch_that_books_again_is_answered_from_what_was_booked():
    family = sliced(BOOKS, summary("Found at last."))
    assert (family.end.state, done(family)) == (RunState.COMPLETED, 1)
    assert family.runs[SECOND].of(ev.CallDeduplicated)
    assert [fact.handed_down for fact in family.root.of(ev.ChildSpawned)][3:] == [tuple(keys(family))]
    assert undo_list(family.root) == [("book", "executed")]


def test_its_keys_are_those_that_the_run_itself_would_use():
    said = first_branch(BOOKS, GONE, BOOKS, summary("Found at last."))
    alone = Household(cut(16), {"planner": planned(10), "worker": said, **DESK}).start().go(until=resting)
    alone.decide("root", "approve")
    whole(alone)
    assert (alone.end.state, done(alone), len(alone.children)) == (RunState.COMPLETED, 1, 0)
    assert keys(sliced(BOOKS, summary("Found at last."))) == keys(alone)


def test_what_is_not_proposed_again_stays_done_and_on_the_list():
    family = sliced(summary("Found without."))
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 1, 0)
    assert undo_list(family.root) == [("book", "executed")]


def test_what_other_branches_did_stays_where_it_is_and_a_brief_is_found_by_its_number():
    """The second of four briefs fails, so that it is the next try's first; the others of its slice and of the next one have booked too."""
    said = {
        "fan_out.0.e0.r0": [BOOKS, summary("Found.")],
        "fan_out.1.e0.r0": [BOOKS, GONE],
    }
    other = children.id_of("root", "fan_out.1.e0.r0.run")
    script = {
        f"worker@{FIRST}": lambda command: (
            said[command.step_id].pop(0) if said.get(command.step_id) else summary("Found.")
        ),
        f"worker@{other}": first_branch(BOOKS, summary("Found.")),
        f"worker@{SECOND}": first_branch(BOOKS, summary("Found at last.")),
    }
    family = Household(cut(4), {"planner": planned(10), "worker": summary("Found."), **DESK, **script}).start()
    family.go(until=resting)
    family.decide("root", "approve")
    whole(family)
    assert (family.end.state, done(family)) == (RunState.COMPLETED, 3)
    first, second, _ = keys(family)
    [again] = [fact.handed_down for fact in family.root.of(ev.ChildSpawned)][3:]
    assert again == (second,) != (first,)
    assert family.runs[SECOND].of(ev.CallDeduplicated)
    assert undo_list(family.root) == [("book", "executed")] * 3


def test_other_arguments_are_another_change():
    family = sliced(asks(call("book", q="train")), summary("Found at last."))
    assert (family.end.state, done(family)) == (RunState.COMPLETED, 2)
    assert undo_list(family.root) == [("book", "executed")] * 2


def test_what_both_tries_did_is_undone_once_where_the_run_ends_badly():
    family = sliced(BOOKS, GONE)
    assert family.end.state in (RunState.FAILED, RunState.ABORTED)
    assert (done(family), done(family, "unbook")) == (1, 1)


@pytest.mark.parametrize("at", range(0, 120, 4))
def test_a_crash_at_any_step_books_nothing_twice(at):
    script = {f"worker@{FIRST}": first_branch(BOOKS, GONE), f"worker@{SECOND}": first_branch(BOOKS, summary("Found."))}
    family = Household(cut(4), {"planner": planned(10), "worker": summary("Found."), **DESK, **script}).start()
    family.go(until=resting)
    family.put("root", DecisionMade(input_id="d", actor="alice", verb="approve", **asked(family.root)))
    family.go(steps=at)
    for run_id in ("root", SECOND):
        if run_id in family.runs and family.runs[run_id].driver is not None:
            family.crash(run_id)
    family.go()
    whole(family)
    assert (family.end.state, len(set(keys(family)))) == (RunState.COMPLETED, 1)


def asked(member):
    fact = next(iter(member.run.questions.values())).fact
    return {"escalation_id": fact.escalation_id, "digest": fact.digest}


# -- teams --


def desk_team(**fields):
    """A team whose only worker books, and whose result may not hold a grudge, beside another one."""
    group = {"places": ["fan_out"], "patterns": [{"name": "grudge", "pattern": "grudge"}]}
    rungs = {tier: {"rungs": [{"reaction": "retry", "times": 1}, {"reaction": "surface"}]} for tier in Tier}
    teams = {"lead": under("ann", aggregator="ed"), "other": under("bob")}
    made = hierarchy(
        under("lead", "other"),
        teams,
        table={"unsafe_output": rungs, "schema_grounding_fail": ASKED, **fields},
        gates={"guardrails": [group]},
        tools=("book",),
        agents={name: {"tools": ["book"]} for name in ("ann", "bob")},
    )
    return FabricSpec.model_validate({**made.model_dump(mode="json", exclude_unset=True), "tools": TOOLS})


def led(*, ann, ed, bob=NOTHING, **fields):
    said = iter(ed)
    script = {"ann": ann, "ed": lambda command: next(said), "bob": list(bob), **DESK}
    return Household(desk_team(**fields), script).start()


def test_a_team_that_is_tried_once_more_has_keys_of_its_own():
    """It may have planned anew meanwhile and undone what stood under the keys of its first plan: what it books again is booked, and both stand to be undone."""
    ann = [BOOKS, summary("Fine."), BOOKS, summary("Fine.")]
    left = iter(ann)
    ed = [summary("An old grudge."), summary("None.")]
    family = led(ann=lambda command: next(left), ed=ed, bob=(BOOKS, summary("Fine."))).go()
    whole(family)
    assert (family.end.state, done(family), len(family.children)) == (RunState.COMPLETED, 3, 3)
    assert undo_list(family.root) == [("book", "executed")] * 3
    assert len(set(keys(family))) == 3
    assert [fact.handed_down for fact in family.root.of(ev.ChildSpawned)] == [(), (), ()]


def test_a_team_that_failed_has_undone_what_it_did_and_books_anew_under_another_key():
    left = iter([BOOKS, GONE, BOOKS, summary("Fine.")])
    family = led(ann=lambda command: next(left), ed=[summary("Fine.")], provider_failure=SURFACES)
    family.go(until=lambda family: any(one.run.questions for one in family.children))
    family.decide(family.children[0].run_id, "reject", until=resting)
    assert done(family, "unbook") == 1
    family.decide("root", "approve")
    whole(family)
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 1)
    first, second = keys(family)
    assert first != second
    assert [fact.handed_down for fact in family.root.of(ev.ChildSpawned)] == [(), (), ()]


# -- what older versions wrote --


def test_a_child_that_began_before_keys_were_told_goes_on_under_its_own():
    family = sliced(BOOKS, summary("Found at last."))
    run = family.runs[FIRST].run
    before = replace(run, family=replace(run.family, lineage=replace(run.family.lineage, keys="")))
    step = next(iter(run.steps.values()))
    assert mutation_key(before, step, "book", "args", 0, carry_over=False) == key_of(
        FIRST, "fan_out.0.e0", "book", "args", 0
    )
