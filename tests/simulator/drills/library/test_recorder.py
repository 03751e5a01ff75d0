"""A recording replays a run: each shipped scenario's run is recorded, played again, and ends by the same causes."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from fabric.core.events.envelope import KINDS, fact_json, from_row, split_rows
from fabric.core.values.taxonomy import Tier
from simulator.drills.library.recorder import READ, Reader, RecordedEvent
from simulator.scenarios.baseline.work import first_run
from simulator.scenarios.play.player import play, play_told
from simulator.scenarios.spec import recorded as spec
from simulator.scenarios.spec.chaostoolkit import build_experiment, import_experiment
from simulator.scenarios.spec.collection import library
from simulator.scenarios.spec.toml import dump, parse_scenario, read_scenario
from tests.simulator.scenarios.peers import fabric_for

AROUND = ("worker-crashes", "worker-dies-at-an-instant", "worker-is-a-zombie", "database-away", "person-double-click")
"""Shipped scenarios whose run waits for a worker, a database or a second click; neither is a part of the run."""


def events(told):
    """Yield the events of a played scenario's run."""
    for row in split_rows(told.world.store.rows(first_run(told.world).id)):
        event = from_row(row.seq, row.kind, row.version, row.header)
        content = None if row.payload is None else json.loads(row.payload)
        yield RecordedEvent(row.seq, row.kind, row.at, fact_json(event), content)


def again(one, told, recording):
    tree = {
        "name": "again",
        "title": "Again",
        "description": "Again.",
        "workload": one.workload.model_dump(),
        "recorded": recording.parts,
        "expect": [
            {"probe": "chain", "tolerance": told.played.during.chain},
            {"probe": "causes", "tolerance": told.played.during.causes},
        ],
        "steady_state": {"probes": [{"probe": "violations", "tolerance": 0}]},
    }
    return read_scenario(tree)


def test_each_kind_has_its_words_and_each_event_is_one():
    kinds = {get_args(one.model_fields["kind"].annotation)[0] for one in get_args(get_args(spec.Recorded)[0])}
    assert set(spec.KINDS) == kinds
    assert set(READ) <= set(KINDS)


@pytest.mark.parametrize("name", library())
def test_a_run_is_recorded_and_played_again_with_the_same_causes(name):
    one = library()[name]
    for tier in one.tiers:
        told = play_told(fabric_for(one), one, tier)
        recording = Reader().read(events(told))
        assert recording.whole
        replayed = play(told.spec, again(one, told, recording), tier, seed=told.played.seed)
        seen = (replayed.verdict, replayed.why, replayed.during and replayed.during.chain)
        if name not in AROUND:
            assert abs(replayed.during.duration_s - told.played.during.duration_s) < 1.0
        assert seen == ("pass", "", told.played.during.chain), (tier, told.played.during.causes, recording.parts)


SLOW = {"fault": "slow", "delay_s": 50.0}
ENDS = {
    "loop": ([{"fault": "tool_loop", "role": "armed"}], "loop_detected"),
    "no progress": ([{"fault": "fruitless_search", "role": "armed"}], "no_progress"),
    "budget": ([{"fault": "cost_spike_price", "role": "worker"}], "budget_gate"),
    "deadline of a call by slow answers": ([SLOW], "timeout"),
    "deadline of the run by slow answers": ([{"fault": "slow", "delay_s": 25.0}], "run_deadline", {"run_s": 60.0}),
    "deadline of a stage by slow answers": ([{"fault": "slow", "delay_s": 25.0}], "stage_deadline", {"stage_s": 35.0}),
    "breaker open": ([{"fault": "unavailable"}], "server_error"),
    "off schema": ([{"fault": "off_schema", "role": "finalizer"}], "corrections_spent"),
    "empty plan": ([{"fault": "bad_plan", "how": "no_briefs"}], "plan_gate"),
    "ungrounded": ([{"fault": "ungrounded"}], "grounding"),
    "withheld answer": ([{"fault": "filtered_answer", "role": "finalizer"}], "content_filter"),
    "tool failed": ([{"fault": "tool_failed"}], "unknown"),
    "tool hung": ([{"fault": "tool_hang"}], "timeout"),
    "expired unanswered": ([{"fault": "unsure"}, {"fault": "person_silent"}], "below_tau"),
    "rejected by a person": ([{"fault": "unsure"}, {"fault": "person_rejects"}], "below_tau"),
}
"""Kinds of ends: what brings it about, and the cause that a decision has to name."""


def hurried(spec, limits=None):
    """The fabric with other deadlines in each tier."""
    deadlines = {tier: spec.policy.deadlines_of(tier).model_copy(update=limits or {}) for tier in Tier}
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"deadlines": deadlines})})


@pytest.mark.parametrize("tier", ["interactive", "batch", "high_stakes"])
@pytest.mark.parametrize("end", ENDS)
def test_each_kind_of_end_comes_again_by_its_cause(end, tier):
    disturbances, cause, *limits = ENDS[end]
    plain = {"name": "end", "title": "End", "description": "End.", "tiers": [tier]}
    steady = {"probes": [{"probe": "violations", "tolerance": 0}]}
    one = read_scenario({**plain, "disturbance": disturbances, "steady_state": steady})
    told = play_told(hurried(fabric_for(one), *limits), one, one.tiers[0])
    if tier == "interactive":
        assert cause in told.played.during.causes.split(" > "), told.played.during
    replayed = play(told.spec, again(one, told, Reader().read(events(told))), one.tiers[0], seed=told.played.seed)
    assert (replayed.verdict, replayed.why) == ("pass", ""), told.played.during


def test_an_act_comes_at_its_place_in_the_journal_however_early_its_instant_was():
    """A real run is faster than the writes of a simulated one: it had a review at once, and was cancelled then."""
    one = library()["critic-is-unsure"]
    told = play_told(fabric_for(one), one, one.tiers[0])
    seen, opened = [], next(n for n, each in enumerate(events(told)) if each.kind == "review_opened")
    for n, each in enumerate(events(told)):
        if n <= opened:
            seen.append(each)
    cancel = RecordedEvent(len(seen) + 1, "cancel_accepted", seen[0].at + 1, {"actor": "ana", "reason": "No."})
    recording = Reader().read([*seen, cancel, RecordedEvent(cancel.seq + 1, "run_ended", cancel.at, {})])
    tree = again(one, told, recording).model_copy(update={"expect": ()})
    replayed = play(told.spec, tree, one.tiers[0], seed=told.played.seed)
    assert (replayed.during.state, replayed.during.causes) == ("cancelled", "below_tau")


def test_a_recorded_scenario_is_read_back_from_each_form():
    one = library()["rate-limit"] if "rate-limit" in library() else next(iter(library().values()))
    told = play_told(fabric_for(one), one, one.tiers[0])
    scenario = again(one, told, Reader().read(events(told)))
    assert parse_scenario(dump(scenario)) == scenario
    assert import_experiment(json.dumps(build_experiment(scenario))).scenario == scenario
