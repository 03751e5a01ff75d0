"""Changes to the world where slices and teams stand below each other, and one of them is tried once more."""

from __future__ import annotations

import pytest

from fabric.core import children
from fabric.core import events as ev
from fabric.core.flow import RunState
from tests.fabric.core.families import Household
from tests.fabric.core.family_scenes import ASKED, whole
from tests.fabric.core.scripts import gives, planned
from tests.fabric.core.test_tried_again_below import (
    BOOKS,
    DESK,
    FINE,
    GONE,
    NOTHING,
    REPLANS,
    SURFACES,
    TAKEN_BACK,
    desk_team,
    done,
    keys,
    led,
    resting,
    undo_list,
)
from tests.fabric.core.topologies.fabrics import under

# -- teams below slices --


def below(*ann, ed):
    """Three briefs for teams in two slices; the first team's branch fails in its slice, and a person lets that be tried once more."""
    limits = {"fan_out_inline_max": 2, "sub_agents_alive": 64, "recursion": 5}
    policy = {"limits": limits, "fan_in": {"mode": "quorum", "k": 3}}
    rows = {"provider_failure": SURFACES, "unsafe_output": SURFACES, "schema_grounding_fail": ASKED}
    plan = ("lead", "other", "other")
    family = led(ann=ann, ed=ed, bob=NOTHING * 2, plan=plan, policy=policy, **rows)
    family.go(until=resting)
    [first] = (fact for fact in family.root.of(ev.ChildAnswered) if fact.missing)
    assert (first.state, first.missing) == (RunState.COMPLETED, (0,))
    family.decide("root", "approve")
    whole(family)
    return family


def test_a_team_below_a_slice_that_is_tried_once_more_is_answered_from_what_an_earlier_one_booked():
    family = below(BOOKS, FINE, BOOKS, FINE, ed=TAKEN_BACK)
    assert (family.end.state, done(family)) == (RunState.COMPLETED, 1)
    assert undo_list(family.root) == [("book", "executed")]


def test_a_team_below_a_slice_that_undid_what_it_booked_leaves_no_key_to_the_next_one():
    family = below(BOOKS, FINE, BOOKS, FINE, ed=[GONE, FINE])
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 1)
    assert len(set(keys(family))) == 2
    assert undo_list(family.root) == [("book", "executed")]


def failed_once(*ann):
    """A team whose first try fails, which a person lets be tried once more."""
    family = led(ann=ann, ed=[FINE], provider_failure=SURFACES)
    family.go(until=lambda family: any(one.run.questions for one in family.children))
    family.decide(family.children[0].run_id, "reject", until=resting)
    family.decide("root", "approve")
    whole(family)
    first, _, second = family.root.of(ev.ChildSpawned)
    return family, first, second


def test_a_try_that_failed_and_undid_nothing_leaves_its_keys():
    family, first, second = failed_once(GONE, BOOKS, FINE)
    assert (family.end.state, done(family)) == (RunState.COMPLETED, 1)
    assert first.keys == second.keys


def test_keys_of_a_try_s_own_are_no_other_try_s_whatever_run_it_is_of():
    """Another try of the run above begins with the keys of this one, and counts its tries anew."""
    _, first, second = failed_once(BOOKS, GONE, BOOKS, FINE)
    assert second.keys == f"{first.keys}~{second.child_id}"


# -- slices below teams --


def of_branch(branch, *answers):
    """What one branch of a run says, one after another; all others are fine."""
    left = list(answers)
    return lambda command: left.pop(0) if command.step_id.startswith(f"fan_out.{branch}.") and left else FINE


def test_a_brief_keeps_its_changes_where_the_team_that_it_is_cut_out_of_is_tried_once_more():
    """The last brief of a team's second slice books and fails, is done in a slice of its own, and all that again in the team's next try."""
    ann = {}
    for number in (0, 1):
        team = children.id_of("root", f"fan_out.0.e0.r{number}.run")
        whole_slice, rest = (children.id_of(team, f"fan_out.1.e0.r{n}.run") for n in (0, 1))
        ann |= {f"ann@{whole_slice}": of_branch(1, BOOKS, GONE), f"ann@{rest}": of_branch(0, BOOKS, FINE)}
    said = iter(TAKEN_BACK)
    policy = {
        "limits": {"fan_out_inline_max": 2, "sub_agents_alive": 64, "recursion": 5},
        "fan_in": {"mode": "quorum", "k": 3},
    }
    teams = {"lead": under("ann", plan=("ann",) * 3, aggregator="ed")}
    script = {"ann": FINE, "ed": lambda command: next(said), "bob": FINE, **ann, **DESK}
    family = Household(desk_team({}, teams, (), policy, provider_failure=SURFACES), script).start()
    for number in (0, 1):
        team = children.id_of("root", f"fan_out.0.e0.r{number}.run")
        family.go(until=lambda family, team=team: team in family.runs and bool(family.runs[team].run.questions))
        family.decide(team, "approve", until=lambda family: True)
    family.go()
    whole(family)
    assert (family.end.state, done(family), len(set(keys(family)))) == (RunState.COMPLETED, 1, 1)
    assert undo_list(family.root) == [("book", "executed")]


def test_what_a_team_did_itself_goes_to_the_slice_that_does_the_brief_in_a_plan_of_more():
    """A team books in its second branch; in its next try there is one brief more, so that its fan-out is cut."""
    teams = {"lead": under("ann", planner="paul", aggregator="ed")}
    limits = {"fan_out_inline_max": 2, "sub_agents_alive": 64, "recursion": 5}
    plans, said = iter((planned(2, agent="ann"), planned(3, agent="ann"))), iter(TAKEN_BACK)
    one, two = (children.id_of("root", f"fan_out.0.e0.r{n}.run") for n in (0, 1))
    cut_out = [children.id_of(two, f"fan_out.{n}.e0.r0.run") for n in (0, 1)]
    ann = {f"ann@{one}": of_branch(1, BOOKS, FINE), f"ann@{cut_out[1]}": of_branch(0, BOOKS, FINE)}
    script = {"ann": FINE, "ed": lambda command: next(said), "bob": FINE, "paul": lambda command: next(plans)}
    family = Household(desk_team({}, teams, (), {"limits": limits}), {**script, **ann, **DESK}).start().go()
    whole(family)
    assert [spawned.briefs for spawned in family.runs[two].of(ev.ChildSpawned)] == [(0,), (1, 2)]
    assert (family.end.state, done(family), len(set(keys(family)))) == (RunState.COMPLETED, 1, 1)
    assert undo_list(family.root) == [("book", "executed")]


def planned_in_two_ways(first, second, deep):
    """A team whose team books in its second brief; its result is taken back, and its next plan has another number of briefs, of which two are one run's."""
    teams = {"lead": under("deep", planner="paul", aggregator="ed"), "deep": under("ann")}
    limits = {"fan_out_inline_max": 2, "sub_agents_alive": 64, "recursion": 5}
    plans, said = iter((planned(first, agent="deep"), planned(second, agent="deep"))), iter(TAKEN_BACK)
    script = {"ann": FINE, "ed": lambda command: next(said), "bob": FINE, "paul": lambda command: next(plans)}
    booking = {f"ann@{run}": of_branch(0, BOOKS, FINE) for run in deep}
    family = Household(desk_team({}, teams, (), {"limits": limits}), {**script, **booking, **DESK}).start().go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    return family


def test_what_a_team_of_the_team_did_goes_down_through_the_slice_that_does_the_brief_now_and_back():
    tries = [children.id_of("root", f"fan_out.0.e0.r{n}.run") for n in (0, 1)]
    for first, second in ((2, 3), (3, 2)):
        deep = []
        for of, briefs in zip(tries, (first, second), strict=True):
            run, branch = (of, 1) if briefs == 2 else (children.id_of(of, "fan_out.1.e0.r0.run"), 0)
            deep.append(children.id_of(run, f"fan_out.{branch}.e0.r0.run"))
        family = planned_in_two_ways(first, second, deep)
        assert set(deep) <= set(family.runs)
        assert (done(family), len(set(keys(family)))) == (1, 1)
        assert undo_list(family.root) == [("book", "executed")]


# -- plans anew --


def books_once(command):
    """Books in its first turn, and is done in its second one."""
    return BOOKS if command.command_id.endswith(".t1") else FINE


BAD = planned(1, agent="nobody")
WAYS = {
    "itself": (under("ann", planner="paul", aggregator="ed"), planned(1, agent="ann")),
    "a team below": (under("deep", planner="paul", aggregator="ed"), planned(1, agent="deep")),
    "slices": (under("ann", planner="paul", aggregator="ed"), planned(3, agent="ann")),
    "teams below slices": (under("deep", planner="paul", aggregator="ed"), planned(3, agent="deep")),
}


def tried_twice(way, *plans):
    """A team whose result is taken back once; which epoch its tries ended in, and how many bookings one of them makes."""
    limits = {"fan_out_inline_max": 2, "sub_agents_alive": 64, "sub_agents_spawned": 64, "recursion": 5}
    left, said = iter(plans), iter(TAKEN_BACK)
    script = {"ann": books_once, "ed": lambda command: next(said), "bob": FINE, "paul": lambda command: next(left)}
    teams = {"lead": WAYS[way][0]} | ({"deep": under("ann")} if "team" in way else {})
    spec = desk_team({}, teams, (), {"limits": limits}, plan_malformed=REPLANS)
    family = Household(spec, script | DESK).start().go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    tries = (family.runs[children.id_of("root", f"fan_out.0.e0.r{n}.run")] for n in (0, 1))
    return family, [one.run.epoch for one in tries], 3 if "slices" in way else 1


@pytest.mark.parametrize("way", WAYS)
def test_how_often_a_try_planned_anew_before_it_did_anything_is_its_own_affair(way):
    good = WAYS[way][1]
    family, epochs, once = tried_twice(way, BAD, good, good)
    assert (epochs, done(family), len(set(keys(family)))) == ([1, 0], once, once)
    assert undo_list(family.root) == [("book", "executed")] * once


@pytest.mark.parametrize("way", WAYS)
def test_a_try_that_plans_anew_undoes_what_it_took_over_and_has_other_keys_from_there_on(way):
    good = WAYS[way][1]
    family, epochs, once = tried_twice(way, good, BAD, good)
    assert (epochs, done(family), done(family, "unbook")) == ([0, 1], 2 * once, once)
    assert len(set(keys(family))) == 2 * once
    assert undo_list(family.root) == [("book", "executed")] * once


@pytest.mark.parametrize(
    ("way", "plans", "anew"),
    [("itself", ("itself", None, "itself"), ("plan_malformed",)), ("a team below", ("a team below",) * 2, ())],
)
def test_keys_of_what_was_undone_are_not_asked_under_again_by_a_later_plan(way, plans, anew):
    """A team books, fails and takes it back, or one below it does; the one above plans anew, once more where nobody can do its plan, and has the same done."""
    left, ann = (WAYS[name][1] if name else BAD for name in plans), iter((BOOKS, GONE, BOOKS, FINE))
    script = {"ann": lambda command: next(ann), "ed": FINE, "bob": FINE, "paul": lambda command: next(left)}
    teams = {"lead": WAYS[way][0]} | ({"deep": under("ann")} if "team" in way else {})
    rows = {"schema_grounding_fail": REPLANS, "provider_failure": SURFACES} | dict.fromkeys(anew, REPLANS)
    family = Household(desk_team({}, teams, (), {}, **rows), script | DESK).start().go()
    whole(family)
    assert (family.end.state, done(family), done(family, "unbook")) == (RunState.COMPLETED, 2, 1)
    assert len(set(keys(family))) == 2
    assert undo_list(family.root) == [("book", "executed")]


def test_what_was_refused_to_a_team_and_given_to_its_slice_is_undone_with_what_the_slice_was_given():
    """A team's only branch is refused a booking and fails; the next plan is cut, and a slice does it under the same key. Then the team fails."""
    lead = under("ann", planner="paul", aggregator="ed")
    plans = iter((planned(1, agent="ann"), planned(3, agent="ann")))
    books = iter((gives(error="sold out"), gives({"id": 7})))
    team = children.id_of("root", "fan_out.0.e0.r0.run")
    cut_out = children.id_of(team, "fan_out.0.e1.r0.run")
    ann = {f"ann@{team}": of_branch(0, BOOKS, GONE), f"ann@{cut_out}": of_branch(0, BOOKS, FINE)}
    desk = {"book": lambda command: next(books), "unbook": gives({})}
    script = {"ann": FINE, "ed": GONE, "bob": FINE, "paul": lambda command: next(plans)}
    rows = {"schema_grounding_fail": REPLANS, "provider_failure": SURFACES}
    limits = {"fan_out_inline_max": 2, "sub_agents_alive": 64, "sub_agents_spawned": 64, "recursion": 5}
    family = Household(desk_team({}, {"lead": lead}, (), {"limits": limits}, **rows), script | ann | desk).start().go()
    whole(family)
    assert (done(family), len(set(keys(family)))) == (2, 1)
    [undone] = [given for name, given, _ in family.executed if name == "unbook"]
    assert undone["result"] == {"id": 7}
