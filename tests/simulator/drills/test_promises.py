"""Promises behind retry layers, under circuit breakers and with models that stand in: known, and kept by the engine. The whole product: ``product``."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.spec.policies.retries import JITTER, PresetName, resolve
from fabric.core.spec.retry_layers import LayerRung
from fabric.core.state.context import compile_spec
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.drills.fabrics import samples
from simulator.scenarios.play.cells import drill
from simulator.scenarios.play.cells import drill_cells as drilled_cells
from simulator.scenarios.promises.digests import CELLS
from simulator.scenarios.promises.layers import MET_IN, NODE_PRESETS, STANDS, node_waits, options
from tests import sets
from tests.console.nasty import crossed
from tests.simulator.drills.drilled import ANSWER, RATE_LIMIT, drilled
from tests.simulator.drills.variants import ROOM, VARIANTS, drawn, layered, with_fallbacks, with_policy

FAST, BATCH, HIGH = Tier
SAMPLES = [with_policy(spec, breakers=[RATE_LIMIT]) for spec in samples()]
PART = [(name, SAMPLES[n % len(SAMPLES)]) for n, name in enumerate(VARIANTS)]
"""Each variant with one of the samples, and the layers with all of them."""
PART += [("layers", spec) for spec in SAMPLES if ("layers", spec) not in PART]


@pytest.mark.parametrize(("name", "spec"), PART, ids=lambda one: one if isinstance(one, str) else one.name)
def test_every_cell_of_a_varied_sample_is_known_and_kept(name, spec):
    """In every run each of them in a third of the cells, each cell with a third of them."""
    varied = VARIANTS[name](spec)
    assert varied != spec
    cells = [cell for one, cell in crossed(PART, CELLS, each=3) if one == (name, spec)]
    assert len(cells) >= len(CELLS) // 3
    assert [cell for cell in drilled_cells(varied, cells) if cell.verdict != "pass"] == []


def of_calls(**more: object) -> FabricSpec:
    return with_policy(drilled(safe_fallback=ANSWER), deadlines=ROOM, **more)


def breaker(scope: str, mode: str, threshold: float, **more: object) -> dict[str, object]:
    signal = {
        "names": ["timeout", "server_error"],
        "mode": mode,
        "threshold": threshold,
        "min_calls": more.pop("min_calls", 10),
    }
    return {"scope": scope, "signals": [signal], "cooldown_s": 600.0, **more}


NO = "skips wait_for_breaker > "
RRR, NODE, SPENT = "retry > retry > retry > ", "retry_node > ", "retry > retry > skips retry > "
WAITS = "wait_for_breaker > wait_for_breaker > escalate > aborted"
CHAINS = {
    "no node is tried twice": (layered(drilled(), max_retries=0), FAST, f"{RRR}{NO}surface > failed"),
    "a node is tried twice": (layered(drilled(), max_retries=1), FAST, f"{RRR}{NO}{NODE}{RRR}{NO}surface > failed"),
    "ten tokens end the fourth attempt": (
        layered(drilled()),
        HIGH,
        f"{RRR}{NODE}{RRR}{NODE}{SPENT}skips retry_node > escalate > aborted",
    ),
    "a chain stands between a call's retries and its node's": (
        layered(with_fallbacks(drilled(), 2), max_retries=0),
        FAST,
        f"{RRR}fallback_model > fallback_model > {NO}surface > failed",
    ),
    "in high-stakes no model stands in, and nothing is taken for it": (
        layered(with_fallbacks(drilled(), 1), max_retries=1),
        HIGH,
        f"{RRR}skips fallback_model > {NODE}{RRR}skips fallback_model > escalate > aborted",
    ),
    "an edge leads to the plan as often as it may": (
        layered(drilled(), max_retries=0, edges=[{"to": "replan", "failure_class": "transient_infra"}]),
        FAST,
        f"{RRR}{NO}replan > {RRR}{NO}replan > {RRR}{NO}surface > failed",
    ),
    "an edge for another class is passed over": (
        layered(drilled(), max_retries=0, edges=[{"to": "replan", "failure_class": "deterministic"}]),
        FAST,
        f"{RRR}{NO}skips replan > surface > failed",
    ),
    "a retry target is an agent above": (
        layered(drilled(lead=True), max_retries=0, retry_target="handover"),
        FAST,
        f"{RRR}{NO}handover > completed",
    ),
    "with the fifth of a streak it is open, despite earlier answers": (
        of_calls(breakers=[breaker("provider", "consecutive", 5)]),
        BATCH,
        f"{RRR}retry > retry > {WAITS}",
    ),
    "failures of the run alone are counted": (
        of_calls(breakers=[breaker("fabric", "cumulative", 7)]),
        BATCH,
        f"{RRR}retry > retry > skips wait_for_breaker > escalate > aborted",
    ),
    "a minute sees all of them": (
        of_calls(breakers=[breaker("stage", "window", 4)]),
        BATCH,
        f"{RRR}retry > skips retry > wait_for_breaker > retry > wait_for_breaker > escalate > aborted",
    ),
    "a share is judged from five calls on": (
        of_calls(breakers=[breaker("agent", "rate", 0.5, min_calls=5)]),
        BATCH,
        f"{RRR}retry > retry > {WAITS}",
    ),
    "the failure that makes the share is waited for at once": (
        of_calls(breakers=[breaker("agent", "rate", 0.5, min_calls=6)]),
        BATCH,
        f"{RRR}retry > retry > {WAITS}",
    ),
    "others' answers make a share smaller": (
        of_calls(breakers=[breaker("fabric", "rate", 0.5, min_calls=5)]),
        BATCH,
        f"{RRR}retry > retry > skips wait_for_breaker > escalate > aborted",
    ),
    "a stand-in passes the breaker that names it": (
        with_policy(with_fallbacks(of_calls(), 1), breakers=[breaker("fabric", "consecutive", 1, on_open="model")]),
        FAST,
        f"retry > skips retry > fallback_model > retry > {NO}surface > failed",
    ),
}
"""By hand: what stands around the call, the tier, and the chain of a provider that fails."""


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_that_was_worked_out_by_hand_is_promised_and_kept(name):
    spec, tier, chain = CHAINS[name]
    cell = drill(spec, FailureType.PROVIDER, tier)
    assert (cell.expected, cell.observed, cell.verdict) == (chain, chain, "pass")


DRAWN = 30 if sets.is_nightly() else 5


@pytest.mark.parametrize("block", range(6))
def test_whatever_stands_around_a_call_the_promise_is_kept_or_not_known(block):
    found = Counter[str]()
    for seed in range(block * 30, block * 30 + DRAWN):
        spec, failure, tier, person, after = drawn(seed)
        cell = drill(spec, failure, tier, seed=seed, person=person, recovers_after=after)
        assert cell.verdict in ("pass", "unknown"), (seed, cell)
        found[cell.verdict] += 1
    assert found["pass"] >= 0.8 * DRAWN, found


# -- the layers, read twice --------------------------------------------------------------------------------------------


def test_every_failure_says_where_it_is_met_and_which_layers_stand_there():
    assert set(STANDS) == set(MET_IN) == set(FailureType)
    assert set(NODE_PRESETS) == set(PresetName)


def test_the_judge_lays_the_layers_as_the_engine_does():
    """Two readings of one document: a rung of one that is none of the other is a mistake of either."""
    seen = 0
    for seed in range(60):
        spec, *_ = drawn(seed)
        if not spec.policy.retry_layers.layered:
            continue
        seen += 1
        laid, table = compile_spec(spec, prices={}).ladders, table_with(spec.decision_table)
        for failure, tier, stage in product(FailureType, Tier, Stage):
            rungs = laid.find_ladder(failure, tier, stage).rungs
            told = [
                (one.reaction, one.times, one.with_, one.failure_class if isinstance(one, LayerRung) else None)
                for one in rungs
            ]
            read = options(spec, table[failure, tier], failure, tier, stage)
            assert [(one.reaction, one.times, one.with_, one.error_class) for one in read] == told
    assert seen >= 20


@pytest.mark.parametrize("preset", PresetName)
def test_nodes_wait_within_the_bounds_of_their_preset(preset):
    waits = node_waits(
        layered(drilled(), stages={"finalize": {"retry_policy": preset}}).policy.retry_layers, Stage.FINALIZE
    )
    engine = resolve(preset)
    assert waits.attempts == engine.attempts
    for retry in range(1, engine.attempts):
        grown = engine.base_s * engine.factor ** (retry - 1)
        assert waits.find_wait(retry) == tuple(min(60.0, grown * jitter) for jitter in JITTER)


# -- what is not known -------------------------------------------------------------------------------------------------


def identical(threshold: int) -> dict[str, object]:
    signal = {"names": ["identical_call"], "mode": "consecutive", "threshold": threshold}
    return {"scope": "agent", "signals": [signal]}


def off_shape(scope: str) -> FabricSpec:
    signal = {"names": ["schema_invalid"], "mode": "consecutive", "threshold": 2}
    gates = {**drilled().gates.model_dump(mode="json"), "citations": "off"}
    return with_policy(drilled(gates=gates), breakers=[{"scope": scope, "signals": [signal]}])


def replans(scope: str, threshold: int) -> FabricSpec:
    rungs = [{"reaction": "replan", "times": 2}, {"reaction": "abort"}]
    cells = {"provider_failure": {"batch": {"rungs": rungs, "deviation": "it is drilled"}}}
    return with_policy(drilled(decision_table=cells), breakers=[breaker(scope, "consecutive", threshold)])


UNKNOWN = {
    "a breaker that comes before the loop detector": (
        with_policy(drilled(), breakers=[identical(2)]),
        FailureType.TOOL_LOOP,
        "policy.breakers: a circuit breaker opens by the same calls that the loop detector stops",
    ),
    "a breaker of a single call": (
        with_policy(drilled(), breakers=[identical(1)]),
        FailureType.NO_PROGRESS,
        "policy.breakers: a circuit breaker opens by a single call",
    ),
    "a planner behind a breaker that answers opened": (
        off_shape("fabric"),
        FailureType.SCHEMA_GROUNDING,
        "policy.breakers: a circuit breaker that answers without the promised form open stands before those who plan",
    ),
    "a planner behind a breaker that failures opened": (
        replans("fabric", 1),
        FailureType.PROVIDER,
        "a circuit breaker that is not closed stands before those who do the new plan too",
    ),
    "a cooldown within the waits": (
        with_policy(
            layered(drilled()), breakers=[{**breaker("stage", "consecutive", 6), "cooldown_s": 2.0}], deadlines=ROOM
        ),
        FailureType.PROVIDER,
        "waits are drawn, and whether a circuit breaker is open still hangs on them",
    ),
    "a stage within the waits": (
        with_policy(
            layered(drilled(), max_retries=5),
            deadlines={"batch": {"call_s": 10, "stage_s": 45, "run_s": 600}},
        ),
        FailureType.PROVIDER,
        "waits are drawn, and whether there is time for another attempt hangs on them",
    ),
}
"""What no promise is computed for, of a batch cell, with its sentence."""


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_computed_says_what_stands_in_the_way(name):
    spec, failure, sentence = UNKNOWN[name]
    cell = drill(spec, failure, BATCH)
    assert (cell.verdict, cell.expected) == ("unknown", "not known")
    assert cell.why.startswith(sentence)


@pytest.mark.parametrize(
    ("spec", "failure"),
    [
        (with_policy(drilled(), breakers=[identical(3)]), FailureType.TOOL_LOOP),
        (with_policy(drilled(), breakers=[identical(2)]), FailureType.NO_PROGRESS),
        (off_shape("agent"), FailureType.SCHEMA_GROUNDING),
        (replans("agent", 1), FailureType.PROVIDER),
        (replans("fabric", 4), FailureType.PROVIDER),
    ],
)
def test_what_stands_beside_it_is_known(spec, failure):
    assert drill(spec, failure, BATCH).verdict == "pass"
