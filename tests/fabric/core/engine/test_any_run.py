"""A run comes to a truthful end, within its bounds and its budget, whatever models, tools, people and processes do."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.mechanisms import budget, find_state
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY, LAYERS_ONLY, Reaction
from fabric.core.state.living import is_live
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, asks, broken, call, fails, gives, planned, say, scored, summary
from tests.sets import many

BAD = [cause for cause in Cause if cause not in (Cause.USER_CANCEL, Cause.BELOW_TAU)]
"""What a port may give as the cause of a failure."""
FAILURES = st.builds(
    fails, st.sampled_from(BAD), billed=st.booleans(), retry_after_s=st.sampled_from([None, None, 0.0, 3.0, 61.0])
)
MISHAPS = st.one_of(
    FAILURES,
    st.just(HANGS),
    st.sampled_from([say(""), say("no"), say("[]"), broken(), asks(call("nope")), say("x", finish="content_filter")]),
    st.builds(lambda seconds: summary().after(seconds), st.integers(0, 130)),
)
CALLS = st.builds(
    lambda made, text: asks(*made, text=text),
    st.lists(
        st.builds(
            lambda q, name: call(q=q, call_id=name), st.sampled_from("abc"), st.sampled_from([None, None, "one", ""])
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["", '{"text": "With calls."}']),
)


def script(*good, extra=MISHAPS):
    return st.lists(st.one_of(st.sampled_from(good), st.sampled_from(good), extra), min_size=1, max_size=6)


SCRIPTS = st.fixed_dictionaries(
    {
        "planner": script(planned(1), planned(3), planned(2, agent="stranger")),
        "worker": script(summary(), extra=CALLS | MISHAPS),
        "look": script(gives(), gives({"rows": []}), gives(error="no such page"), extra=FAILURES | st.just(HANGS)),
        "aggregator": script(summary("Merged."), summary("Cited.", citations=("ghost.md",))),
        "critic": script(scored(0.9), scored(0.1)),
        "finalizer": script(summary("Final.")),
    }
)
LAST = st.sampled_from(sorted(set(Reaction) - BOUNDED_ONLY))
RUNGS = st.lists(
    st.fixed_dictionaries(
        {"reaction": st.sampled_from(sorted(set(Reaction) - LAYERS_ONLY)), "times": st.integers(1, 3)}
    ),
    max_size=3,
)
CELL = st.builds(lambda rungs, last: {"rungs": [*rungs, {"reaction": last}]}, RUNGS, LAST)
TABLES = st.dictionaries(
    st.sampled_from(list(FailureType)), st.dictionaries(st.sampled_from(list(Tier)), CELL, max_size=3)
)
POLICIES = st.fixed_dictionaries(
    {
        "fan_in": st.sampled_from([{"mode": "all"}, {"mode": "quorum", "k": 2}, {"mode": "best_effort"}]),
        "budget": st.sampled_from(
            [{"run_usd_micros": 10**7}, {"run_usd_micros": 60_000}, {"run_usd_micros": 10**7, "run_tokens": 40_000}]
        ),
        "gates": st.sampled_from([{}, {"citations": "exist"}, {"max_outcome_chars": 6}]),
    }
)
ACTS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from(["crash", "approve", "approve", "reject", "wait", "cancel", "stale", "crash", "on"]),
    ),
    max_size=6,
)


@settings(
    max_examples=many(250), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(SCRIPTS, st.sampled_from(list(Tier)), TABLES, POLICIES, ACTS, st.integers(0, 3), st.booleans())
@example({"planner": [planned(1)]}, Tier.INTERACTIVE, {}, {}, [(0, "wait"), (0, "wait")], 0, False).via(
    "its deadline passes before a worker claims it: it ends without one call, and its ledger is a fresh one"
)
def test_any_run_comes_to_an_end_within_its_bounds(scripts, tier, table, policy, acts, seed, late):
    world = World(spec(table=table, **policy), scripts, tier, seed=seed, late=late).start()
    for steps, act in acts:
        world.go(steps=steps)
        happen(world, act)
    world.go()
    for _ in range(40):
        if world.run.terminal:
            break
        assert world.run.reviews, "a run that neither ended nor waits for a person is stuck"
        assert not is_live(world.run)
        world.wait(10**6).go()
    hold(world)


def happen(world: World, act: str) -> None:
    if world.run.terminal:
        return
    if act == "crash":
        world.crash()
    elif act == "cancel":
        world.cancel()
    elif act == "wait":
        world.wait(200)
    elif act != "on" and world.run.reviews:
        world.decide("approve" if act == "stale" else act, digest="0" * 32 if act == "stale" else None)


def hold(world: World) -> None:
    """Assert what must be true of every run that has ended."""
    assert world.run.terminal
    assert world.kinds.count("run_ended") == 1
    assert world.kinds[0] == "run_started"
    assert len(world.of(ev.RunEnding)) <= 1
    assert len(world.end.reason) > 3
    ledger = find_state(world.run.guards, budget)
    assert ledger.reserved == {}
    assert ledger.spent_usd_micros <= world.spec.policy.budget.run_usd_micros
    assert (world.run.pending, world.run.timers, world.run.reviews) == ({}, {}, {})
    answered = [(f.command_id) for f in world.facts if f.kind in ("model_answered", "tool_answered")]
    assert len(answered) == len(set(answered))
    attempts = [(f.command_id, f.attempt) for f in world.of(ev.CallIssued)]
    assert len(attempts) == len(set(attempts))
    keys: dict[str, str] = {}
    for fact in world.of(ev.CallIssued):
        assert keys.setdefault(fact.command_id, fact.key) == fact.key
    assert len(set(keys.values())) == len(keys)
    assert all(count <= 2 for count in replans_by_ladder(world).values())
    stops = [n for n, kind in enumerate(world.kinds) if kind in ("run_ending", "cancel_accepted")]
    assert not stops or "call_issued" not in world.kinds[stops[0] :]


def replans_by_ladder(world: World) -> dict[str, int]:
    counted: dict[str, int] = {}
    for fact in world.of(ev.ReactionDecided):
        if fact.reaction == "replan":
            counted[fact.scope] = counted.get(fact.scope, 0) + 1
    return counted
