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
FINE = summary("Fine.")
TAKEN_BACK = (summary("An old grudge."), summary("None."))


def resting(family):
    return bool(family.root.run.questions) and not family.root.run.family.alive


def done(family, tool="book"):
    return [name for name, _, _ in family.executed].count(tool)


def keys(family):
    return [fact.key for member in family.runs.values() for fact in member.of(ev.MutationIntended)]


def undo_list(member):
    return [(one.tool, str(one.status)) for one in member.run.saga.mutations]


# -- slices --


def cut(inline, **policy):
    """Ten briefs, of which the first one of all books; with room for so many in the run itself."""
    table = {"schema_grounding_fail": ASKED, "provider_failure": SURFACES}
    limits = {"fan_out_inline_max": inline, "sub_agents_alive": 64}
    made = tree(table=table, fan_in={"mode": "quorum", "k": 10}, tools=("book",), limits=limits, **policy)
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


def test_a_try_that_begins_while_the_one_before_still_undoes_what_it_did_has_keys_of_its_own():
    """The second slice misses a brief, and the others are told to stop; in the next round it is that one, while it does again what it had done."""
    slow, quick = summary("Found at last.").after(30.0), summary("Found at last.")
    said = {
        0: [[slow], [GONE], [quick]],
        1: [[BOOKS, GONE], [BOOKS, slow], [BOOKS, quick]],
    }
    script = {
        f"worker@{children.id_of('root', f'fan_out.{branch}.e0.r{n}.run')}": first_branch(*answers)
        for branch, tries in said.items()
        for n, answers in enumerate(tries)
    }
    slowly = {"book": gives({"id": 1}), "unbook": gives({}).after(20.0)}
    spec = cut(4, humans={"failure_rounds": 2})
    family = Household(spec, {"planner": planned(10), "worker": summary("Found."), **slowly, **script}).start()
    family.go(until=resting)
    family.decide("root", "approve", until=lambda family: bool(family.root.run.questions))
    assert family.root.run.family.alive
    family.decide("root", "approve")
    whole(family)
    stopped, last = (family.runs[children.id_of("root", f"fan_out.1.e0.r{n}.run")] for n in (1, 2))
    assert (family.end.state, stopped.run.state) == (RunState.COMPLETED, RunState.CANCELLED)
    undone = {fact.of_key for fact in stopped.of(ev.CompensationAnswered)}
    assert undone
    assert {fact.key for fact in last.of(ev.MutationIntended)}.isdisjoint(undone)
    assert undo_list(family.root) == [("book", "executed")]


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


def desk_team(tool, teams, plan, policy, **rows):
    """A team whose only worker books, and whose result may not hold a grudge, beside another one."""
    group = {"places": ["fan_out"], "patterns": [{"name": "tales", "pattern": "grudge"}]}
    again = {tier: {"rungs": [{"reaction": "retry", "times": 1}, {"reaction": "surface"}]} for tier in Tier}
    made = hierarchy(
        under("lead", "other", plan=plan),
        {"lead": under("ann", aggregator="ed"), "other": under("bob")} | teams,
        table={"unsafe_output": again, "schema_grounding_fail": ASKED} | rows,
        gates={"guardrails": [group]},
        tools=("book",),
        agents={name: {"tools": ["book"]} for name in ("ann", "bob")},
        **policy,
    )
    return FabricSpec.model_validate(
        {**made.model_dump(mode="json", exclude_unset=True), "tools": [TOOLS[0] | tool, TOOLS[1]]}
    )


def led(*, ann, ed, bob=NOTHING, tool=None, teams=None, plan=(), policy=None, paul=None, **rows):
    said, left = iter(ed), iter(ann)
    script = {"ann": lambda command: next(left), "ed": lambda command: next(said), "bob": list(bob), "paul": paul}
    return Household(desk_team(tool or {}, teams or {}, plan, policy or {}, **rows), script | DESK).start()


def test_a_team_whose_result_was_taken_back_books_nothing_twice():
    family = led(ann=[BOOKS, FINE, BOOKS, FINE], ed=TAKEN_BACK, bob=(BOOKS, FINE)).go()
    whole(family)
    assert (family.end.state, done(family), len(family.children)) == (RunState.COMPLETED, 2, 3)
    assert undo_list(family.root) == [("book", "executed")] * 2
    [anns] = [fact.key for fact in family.children[0].of(ev.MutationIntended)]
    assert [fact.handed_down for fact in family.root.of(ev.ChildSpawned)] == [(), (), (anns,)]
    assert not any(fact.keys_spent for fact in family.root.of(ev.ChildAnswered))


REPLANS = {tier: {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "surface"}]} for tier in Tier}


def planned_anew(*again, **tool):
    """A team undoes what its first plan did, does it again and ends well; its result is taken back, and it says ``again``."""
    teams = {"lead": under("ann", aggregator="ed", planner="paul")}
    rows = {"provider_failure": SURFACES, "schema_grounding_fail": REPLANS}
    ann, plan = [BOOKS, GONE, BOOKS, FINE, *again], planned(1, agent="ann")
    family = led(ann=ann, ed=TAKEN_BACK, tool=tool, teams=teams, paul=plan, **rows).go()
    whole(family)
    return family


def test_a_team_that_planned_anew_has_undone_what_stood_under_its_keys_so_that_its_next_try_has_others():
    family = planned_anew(BOOKS, FINE)
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 3, 1)
    assert len(set(keys(family))) == 3
    first, other, second = family.root.of(ev.ChildSpawned)
    assert second.keys not in (first.keys, other.keys)
    assert {fact.child_id: fact.keys_spent for fact in family.root.of(ev.ChildAnswered)} == {
        first.child_id: True,
        other.child_id: False,
        second.child_id: False,
    }
    assert undo_list(family.root) == [("book", "executed")] * 2


def test_what_stands_of_a_try_whose_keys_are_spent_is_undone_with_the_next_one():
    family = planned_anew(GONE, GONE)
    assert (done(family), done(family, "unbook"), undo_list(family.root)) == (2, 2, [])
    [second] = [fact.handed_down for fact in family.root.of(ev.ChildSpawned)][2:]
    assert second == (keys(family)[1],)


def test_what_is_carried_over_a_replan_of_the_team_is_so_with_what_an_earlier_try_did():
    """Nothing is undone, so the keys stay what they were; the second try plans anew too, and what was booked is booked still."""
    family = planned_anew(BOOKS, GONE, BOOKS, FINE, carry_over=True)
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 1, 0)
    assert len(set(keys(family))) == 1
    assert undo_list(family.root) == [("book", "executed")]


def test_what_a_team_of_the_team_did_is_undone_by_a_replan_above_it_whatever_is_carried_over():
    plan = planned(1, agent="deep")
    plans = iter((plan, planned(1, agent="nobody"), plan))
    family = led(
        ann=[BOOKS, FINE, BOOKS, FINE],
        ed=TAKEN_BACK,
        paul=lambda command: next(plans),
        tool={"carry_over": True},
        teams={"lead": under("deep", aggregator="ed", planner="paul"), "deep": under("ann")},
        plan_malformed=REPLANS,
    ).go()
    whole(family)
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 1)
    assert undo_list(family.root) == [("book", "executed")]


def test_a_team_that_failed_has_undone_what_it_did_and_books_anew_under_another_key():
    family = led(ann=[BOOKS, GONE, BOOKS, FINE], ed=[FINE], provider_failure=SURFACES)
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
