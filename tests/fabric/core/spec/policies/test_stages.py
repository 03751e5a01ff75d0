"""A stage's own value takes effect in that stage and in no other (docs/specification/protections.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import pytest
from pydantic import BaseModel, ValidationError

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.limits import Deadlines
from fabric.core.spec.policies.stages import ELSEWHERE, ONLY_IN, StageDeadlines, StagePolicy, elsewhere
from fabric.core.spec.retry_layers import Ladders, ladders
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import US, World, ran
from tests.fabric.core.rules.test_loop_runs import SOON, THOUGHTS, blocked, changing
from tests.fabric.core.scripts import asks, call, fails, gives, planned, say, scored, summary
from tests.fabric.core.topologies.fabrics import TOPICS, passes, peers

Run = Callable[[JSON], World]
"""Runs a fabric whose ``policy.stages`` are these."""

# -- how a case is run -------------------------------------------------------------------------------------------------


def of_one(script: JSON, **policy: JSON) -> Run:
    return lambda stages: ran(lone(stages=stages, **policy), script)


def of_all(script: JSON, **policy: JSON) -> Run:
    return lambda stages: ran(spec(stages=stages, **policy), script)


def of_peers(script: JSON, **policy: JSON) -> Run:
    return lambda stages: ran(peers("triage", "network", "database", stages=stages, **policy), script)


def asking(*queries: str, look: JSON = None, texts: tuple[str, ...] = (), **policy: JSON) -> Run:
    """One worker that asks these one after the other, and answers then."""
    said = texts or ("",) * len(queries)
    turns = [asks(call(q=query), text=text) for query, text in zip(queries, said, strict=True)]
    return lambda stages: ran(
        lone(stages=stages, progress={"agent_turns": 50}, **policy),
        {"worker": [*turns, summary()], "look": look() if look else gives("nothing")},
    )


def only(detector: str) -> JSON:
    return {"loop_detector": {"detectors": [detector]}}


def dead(times: int) -> JSON:
    return [fails(Cause.SERVER_ERROR) for _ in range(times)] + [summary()]


def broken() -> Callable[[object], JSON]:
    """A tool that fails in other words each time."""
    words = iter(["the line is dead", "the shelf is empty", "the clerk is out", "the door is shut"])
    return lambda command: gives(error=next(words))


def handing(*briefs: str) -> JSON:
    """Two peers that pass it on with these briefs in turn."""
    return {
        "triage": [passes("network", brief) for brief in briefs[::2]] + [summary()],
        "network": [passes("triage", brief) for brief in briefs[1::2]] + [summary()],
    }


def round_three(*briefs: str) -> JSON:
    """Three peers that hand it round."""
    ways = {"triage": "network", "network": "database", "database": "triage"}
    names = list(ways)
    return {name: [passes(ways[name], brief) for brief in briefs[n::3]] + [summary()] for n, name in enumerate(names)}


# -- what is looked at -------------------------------------------------------------------------------------------------


def causes(world: World) -> list[str]:
    return [str(fact.cause.cause) for fact in world.of(ev.ReactionDecided)][:1]


def reactions(world: World) -> list[str]:
    return list(world.reactions)


def moved(world: World) -> int:
    return len(world.of(ev.HandedOff))


def waits(world: World) -> list[float]:
    return [fact.delay_s for fact in world.of(ev.RetryScheduled)]


def retried(world: World) -> int:
    return len(world.of(ev.RetryScheduled))


def call_times(world: World) -> list[float]:
    facts: list[tuple[int, Any]] = [(event.at, event.fact) for event in world.events]
    return [(one.deadline_at - at) / US for at, one in facts if one.kind == "call_issued" and one.agent == "worker"]


def stage_times(world: World) -> list[float]:
    facts: list[tuple[int, Any]] = [(event.at, event.fact) for event in world.events]
    return [(one.deadline_at - at) / US for at, one in facts if one.kind == "stage_entered" and one.stage == "fan_out"]


def asked(world: World) -> int:
    return world.asked("worker")


def refused(world: World) -> int:
    return len(world.of(ev.CallRefused))


# -- the cases ---------------------------------------------------------------------------------------------------------

SAME = "Please look at the invoice that the customer has sent us."
ALIKE = [f"Please look at the invoice that the customer has sent us {n}." for n in ("first", "then", "again", "once")]


@dataclass(frozen=True)
class Case:
    """A field of ``policy.stages``: in ``run`` it makes of ``before`` what ``after`` is, and only if it is said of ``stage``."""

    run: Run
    value: JSON
    look: Callable[[World], object]
    before: object
    after: object
    stage: Stage = Stage.FAN_OUT
    others: tuple[Stage, ...] = field(default=(Stage.FAN_IN, Stage.PLAN))
    """Stages that may have it too, and in which it changes nothing of this run."""


ABORTS = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
NOWHERE: tuple[Stage, ...] = ()
CASES: Mapping[str, Case] = {
    "tau": Case(of_all({"critic": scored(0.8)}), 0.9, causes, [], ["below_tau"], Stage.VALIDATE),
    "deadlines.*.call_s": Case(of_all({}), 7, call_times, [30], [7]),
    "deadlines.*.stage_s": Case(of_all({}), 50, stage_times, [120], [50]),
    "limits.hops": Case(
        of_peers(handing(*(f"There is more to say of {topic}." for topic in TOPICS[:4]))),
        2,
        moved,
        4,
        2,
        others=NOWHERE,
    ),
    "limits.turns": Case(asking(*"abcd"), 2, causes, [], ["turn_limit"]),
    "limits.calls_per_turn": Case(
        of_one({"worker": [asks(call(q="a"), call(q="b")), summary()], "look": gives("nothing")}), 1, refused, 0, 1
    ),
    "limits.corrections_per_step": Case(of_one({"worker": [say("no"), say("no"), summary()]}), 1, asked, 3, 2),
    "loop_detector.detectors": Case(asking(*"aaa"), ["same_call_in_a_row"], blocked, [3], []),
    "loop_detector.identical_threshold": Case(asking(*"aab", **only("identical_calls")), 2, blocked, [], [2]),
    "loop_detector.identical_window": Case(asking(*"abaca", **only("identical_calls")), 3, blocked, [5], []),
    "loop_detector.period_repeats": Case(
        asking(*"ababab", **only("repeated_cycle")), 3, lambda w: blocked(w)[:1], [4], [6]
    ),
    "loop_detector.period_window": Case(asking(*"abcabc", **only("repeated_cycle")), 4, blocked, [6], []),
    "loop_detector.consecutive_threshold": Case(
        asking(*"aaaa", look=changing, **only("same_call_in_a_row")), 4, blocked, [], [4]
    ),
    "loop_detector.answer_threshold": Case(of_one({"worker": say(THOUGHTS)}), 2, asked, 3, 2),
    "loop_detector.stale_threshold": Case(
        asking(*"abcabc", **only("nothing_new_in_a_row")), 2, lambda w: blocked(w)[:1], [], [5]
    ),
    "loop_detector.long_threshold": Case(
        asking(*"aabacada", **only("near_identical_calls_in_the_long_run")), 4, lambda w: blocked(w)[:1], [], [6]
    ),
    "loop_detector.long_window": Case(
        asking(*"axaxaxaxaxax", **only("near_identical_calls_in_the_long_run")), 6, lambda w: blocked(w)[:1], [11], []
    ),
    "loop_detector.failing_threshold": Case(
        asking(*"abcd", look=lambda: gives(error="it is broken"), **only("nothing_but_errors")),
        2,
        lambda w: blocked(w)[:1],
        [],
        [3],
    ),
    "loop_detector.said_threshold": Case(
        asking(
            "keepers of old",
            "old keepers",
            look=lambda: gives("nothing"),
            texts=(SOON,) * 2,
            **only("same_words_before_calls"),
        ),
        2,
        blocked,
        [],
        [2],
    ),
    "loop_detector.said_window": Case(
        asking(
            *("keepers of old", "old keepers there", "keepers of old there", "keepers there"),
            look=broken,
            texts=(SOON, "Now I will ask the harbour office for what it has on them.", SOON, SOON),
            **only("same_words_before_calls"),
        ),
        3,
        blocked,
        [4],
        [],
    ),
    "loop_detector.ag2_threshold": Case(
        asking(*"aab", loop_detector={"preset": "ag2"}), 2, lambda w: blocked(w)[:1], [], [2]
    ),
    "progress.agent_turns": Case(
        of_one(
            {"worker": [asks(call(q=f"a {n}")) for n in "xyz"] + [summary()], "look": gives("nothing")},
            **only("same_call_in_a_row"),
        ),
        2,
        causes,
        [],
        ["no_progress"],
        others=(Stage.FAN_IN,),
    ),
    "progress.supervisor_turns": Case(
        of_all(
            {"planner": [asks(call(q="a")), asks(call(q="a")), planned()], "look": gives("nothing")},
            agents={"planner": {"tools": ["look"]}},
        ),
        2,
        causes,
        [],
        ["no_progress"],
        Stage.PLAN,
        NOWHERE,
    ),
    "deadlock_monitor.similarity": Case(of_peers(handing(*ALIKE)), 0.5, causes, [], ["brief_repeated"], others=NOWHERE),
    "deadlock_monitor.brief_chars": Case(
        of_peers(handing("Look at it.", "I did not.", "Look at it.")), 5, causes, [], ["brief_repeated"], others=NOWHERE
    ),
    "deadlock_monitor.window_moves": Case(
        of_peers(
            handing(SAME, *(f"There is much more to say of {topic} to anybody." for topic in TOPICS[:5]), SAME),
            limits={"hops": 20},
        ),
        6,
        causes,
        ["brief_repeated"],
        [],
        others=NOWHERE,
    ),
    "deadlock_monitor.cycle_max": Case(
        of_peers(round_three(*["Go."] * 6), limits={"hops": 20}), 2, causes, ["handoff_cycle"], [], others=NOWHERE
    ),
    "retry.base_s": Case(of_all({"worker": dead(1)}), 0.001, lambda w: waits(w)[0] < 0.001, False, True),
    "retry.factor": Case(
        of_all({"worker": dead(2)}, retry={"factor": 10, "base_s": 0.5}), 1, lambda w: waits(w)[1] < 0.5, False, True
    ),
    "retry.cap_s": Case(of_all({"worker": dead(1)}), 0.01, lambda w: waits(w)[0] <= 0.01, False, True),
    "retry.stage_retries": Case(of_all({"worker": dead(2)}), 1, retried, 2, 1),
    "decision_table": Case(of_all({"worker": dead(1)}), ABORTS, reactions, ["retry"], ["abort"]),
}


def paths(model: type[BaseModel] = StagePolicy, before: str = "") -> Iterator[str]:
    """Every field of a stage, groups down to their leaves."""
    for name, one in model.model_fields.items():
        inner = one.annotation
        if name == "deadlines":
            inner = get_args(inner)[1]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from paths(inner, f"{before}{name}.{'*.' if name == 'deadlines' else ''}")
        else:
            yield f"{before}{name}"


def stated(path: str, value: JSON) -> JSON:
    """The value at its path, as ``policy.stages.STAGE`` has it."""
    for part in reversed(path.replace("*", "interactive").split(".")):
        value = {part: value}
    return value


def test_every_field_of_a_stage_has_a_case():
    assert set(CASES) == set(paths())


@pytest.mark.parametrize("path", CASES)
def test_a_value_takes_effect_in_its_stage(path):
    case = CASES[path]
    assert case.look(case.run({})) == case.before
    assert case.look(case.run({case.stage: stated(path, case.value)})) == case.after


@pytest.mark.parametrize(("path", "other"), [(path, other) for path, case in CASES.items() for other in case.others])
def test_and_in_no_other(path, other):
    case = CASES[path]
    assert case.look(case.run({other: stated(path, case.value)})) == case.before


# -- cells -------------------------------------------------------------------------------------------------------------

UP = {"provider_failure": {"batch": {"rungs": [{"reaction": "retry", "times": 1}, {"reaction": "escalate"}]}}}


def ladders_of(fabric: FabricSpec) -> Ladders:
    return ladders(table_with(fabric.decision_table), fabric)


def test_a_stages_cell_holds_in_it_and_the_fabrics_in_the_others():
    fabric = spec(table=UP, stages={"fan_in": {"decision_table": ABORTS}})
    laid, row = ladders_of(fabric), FailureType.PROVIDER
    assert [rung.reaction for rung in laid.find_ladder(row, Tier.INTERACTIVE, Stage.FAN_IN).rungs] == ["abort"]
    for stage in Stage:
        assert laid.find_ladder(row, Tier.BATCH, stage) == fabric.decision_table[row][Tier.BATCH]
    assert laid.find_ladder(row, Tier.INTERACTIVE, Stage.PLAN) == ladders_of(spec()).find_ladder(
        row, Tier.INTERACTIVE, Stage.PLAN
    )
    assert laid.version != ladders_of(spec(table=UP)).version, "a decision names the table that it was taken by"


def test_a_stage_of_its_own_leaves_the_table():
    assert spec(stages={}).digest() == spec().digest()
    assert ladders_of(spec(stages={"validate": {"tau": 0.9}})).version == ladders_of(spec()).version


def test_layers_are_laid_around_a_stages_own_cell():
    layers = {"retry_layers": {"preset": "fabro"}}
    cell = {"provider_failure": {"batch": {"rungs": [{"reaction": "abort"}]}}}
    laid = ladders_of(spec(**layers, stages={"fan_in": {"decision_table": cell}}))
    ends = {stage: laid.find_ladder(FailureType.PROVIDER, Tier.BATCH, stage).rungs[-1].reaction for stage in Stage}
    assert ends == {stage: "abort" if stage is Stage.FAN_IN else "escalate" for stage in Stage}


# -- what is refused ---------------------------------------------------------------------------------------------------


def told(stages: JSON) -> str:
    with pytest.raises(ValidationError) as error:
        spec(stages=stages)
    return str(error.value)


@pytest.mark.parametrize("only", ONLY_IN)
def test_what_means_nothing_in_a_stage_is_refused_with_the_reason(only):
    where, why = ONLY_IN[only]
    path = next(path for path in CASES if path == only or path.startswith(f"{only}."))
    for stage in set(Stage) - where:
        sentence = told({stage: stated(path, CASES[path].value)})
        assert f"policy.stages.{stage}.{only}: {why}, and this is stage {stage}; leave it out" in sentence
    for stage in where:
        spec(stages={stage: stated(path, CASES[path].value)})


def test_the_places_that_are_named_are_fields_of_the_policy():
    for path in ELSEWHERE:
        group, _, name = path.partition(".")
        part = FlowPolicy.model_fields[group].annotation
        assert not name or name in part.model_fields, path


def groups() -> Iterator[tuple[str, type[BaseModel], type[BaseModel]]]:
    """Each group of a stage: its name, itself, and the fabric's."""
    yield "", StagePolicy, FlowPolicy
    yield "deadlines", StageDeadlines, Deadlines
    for name, one in StagePolicy.model_fields.items():
        if isinstance(part := one.annotation, type) and issubclass(part, BaseModel):
            yield name, part, cast(type[BaseModel], FlowPolicy.model_fields[name].annotation)


def test_every_field_of_the_policy_is_a_stages_or_is_refused_with_where_it_stands():
    for group, part, whole in groups():
        named = set(part.model_fields) - {"decision_table"}
        assert named <= set(whole.model_fields), group
        assert set(whole.model_fields) - named == part.refused(), group
        for name in part.refused():
            inside = {"batch": {name: None}} if group == "deadlines" else {name: None}
            path = f"{group}.{name}" if group else name
            sentence = f"{name} is nothing that one stage has: {elsewhere(path)}; leave it out"
            assert sentence in told({"fan_out": {group: inside} if group else inside})


WORDS = {"title", "description", "default", "uniqueItems", "x-unit", "x-at-limit", "x-source"}


def bounds(group: type[BaseModel], name: str) -> JSON:
    found = group.model_json_schema()["properties"][name]
    given = next((one for one in found.get("anyOf", ()) if one != {"type": "null"}), found)
    return {key: one for key, one in given.items() if key not in WORDS}


def test_a_stages_values_have_the_bounds_of_the_fabrics():
    for group, part, whole in groups():
        for name in part.model_fields if group else ("tau",):
            assert bounds(part, name) == bounds(whole, name), f"{group}.{name}"


def test_detectors_beside_a_preset_are_refused_and_so_is_an_empty_list():
    fabric = {"loop_detector": {"preset": "flow"}}
    with pytest.raises(ValidationError, match="the fabric has one rule in place of detectors"):
        spec(**fabric, stages={"fan_out": {"loop_detector": {"detectors": ["identical_calls"]}}})
    assert "name at least one" in told({"fan_out": {"loop_detector": {"detectors": []}}})


def test_a_stage_that_names_its_detectors_keeps_the_numbers_of_its_fabric():
    fabric = FlowPolicy.model_validate(
        {
            "budget": {"run_usd_micros": 1},
            "stages": {"plan": {"loop_detector": {"detectors": ["identical_calls", "nothing_but_errors"]}}},
        }
    )
    seen = fabric.of_stage(Stage.PLAN).loop_detector
    assert seen == fabric.loop_detector.model_copy(
        update={"detectors": frozenset({"identical_calls", "nothing_but_errors"})}
    )
