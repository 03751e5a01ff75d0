"""Fabrics as their authors might have written them: a fabric with retry layers, with circuit breakers, with other models behind its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY, LAYERS_ONLY, Reaction
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.promises.expectation import Person
from tests.simulator.drills.drilled import ANSWER, drilled

JSON = dict[str, Any]
ROOM = {str(tier): {"call_s": 60, "stage_s": 40_000, "run_s": 90_000} for tier in Tier}
"""Deadlines that any cooldown fits into."""
PRESETS = ("none", "standard", "aggressive", "linear", "patient")
STAGES = ("plan", "fan_out", "fan_in", "validate", "finalize")
SCOPES = ("agent", "provider", "tool", "stage", "fabric")
UP = ("retry", "fallback_model")
"""Rungs of a cell whose place the layers take."""


def plain(spec: FabricSpec) -> JSON:
    return spec.model_dump(mode="json", by_alias=True)


def with_policy(spec: FabricSpec, **parts: Any) -> FabricSpec:
    tree = plain(spec)
    tree["policy"] |= parts
    return FabricSpec.model_validate(tree)


def layered(spec: FabricSpec, **said: Any) -> FabricSpec:
    """With retry layers; its own cells lose what the layers say instead."""
    tree = plain(spec)
    tree["policy"]["retry_layers"] = {"preset": "fabro", "deviation": "it is drilled", **said}
    for row in tree["decision_table"].values():
        for ladder in row.values():
            ladder["rungs"] = [rung for rung in ladder["rungs"] if rung["reaction"] not in UP]
    return FabricSpec.model_validate(tree)


def with_fallbacks(spec: FabricSpec, behind: int, elsewhere: bool = False) -> FabricSpec:
    """Each model with so many that stand in for it; ``elsewhere``: each at an endpoint of its own."""
    tree = plain(spec)
    made: list[JSON] = []
    for model in tree["models"]:
        names = [f"{model['name']}-{n}" for n in range(1, behind + 1)]
        for n, name in enumerate(names):
            at = {"base_url": f"http://127.0.0.1:{9000 + n}/v1"} if elsewhere else {}
            made.append({**model, "name": name, "fallbacks": [], **at})
        model["fallbacks"] = names
    tree["models"] += made
    return FabricSpec.model_validate(tree)


def with_breaker(spec: FabricSpec, preset: str, scope: str, **more: Any) -> FabricSpec:
    """With one breaker, and no other."""
    return with_policy(spec, breakers=[{"preset": preset, "scope": scope, **more}])


def _nodes(spec: FabricSpec, preset: str) -> FabricSpec:
    return layered(spec, stages={stage: {"retry_policy": preset} for stage in STAGES})


def _partial(spec: FabricSpec) -> FabricSpec:
    """Gaps are accepted of a plan that is done inline, and where the fan-in policy wants all of it."""
    limits = spec.policy.limits.model_dump(mode="json") | {"plan_branches": spec.policy.limits.fan_out_inline_max}
    whole = with_policy(spec, fan_in={"mode": "all"}, limits=limits)
    return layered(whole, stages={"fan_out": {"allow_partial": True}})


def _ways(spec: FabricSpec) -> FabricSpec:
    """Every way out that the fabric has: to its planner, and to an agent above, which it is given."""
    tree = plain(spec)
    tree["agents"].append({**tree["agents"][0], "name": "lead", "answers": "json"})
    tree["topology"]["handover"] = "lead"
    ways = ["replan"] * (spec.topology.planner is not None) + ["handover"]
    edges = [{"to": way, "failure_class": "transient_infra"} for way in ways]
    return layered(FabricSpec.model_validate(tree), edges=edges, retry_target=ways[0], max_retries=1)


def _all_of_it(spec: FabricSpec) -> FabricSpec:
    return layered(with_breaker(with_fallbacks(spec, 2, elsewhere=True), "endpoint", "provider", on_open="model"))


VARIANTS: Mapping[str, Callable[[FabricSpec], FabricSpec]] = {
    "layers": layered,
    **{f"layers, nodes {preset}": partial(_nodes, preset=preset) for preset in PRESETS},
    **{f"layers, max_retries {n}": partial(layered, max_retries=n) for n in (0, 1, 2, 5, 20)},
    "layers, allow_partial": _partial,
    "layers, ways out": _ways,
    "layers, breaker, fallbacks": _all_of_it,
    **{
        f"breaker {preset}, {scope}": partial(with_breaker, preset=preset, scope=scope)
        for preset in ("semantic", "endpoint")
        for scope in SCOPES
    },
    **{
        f"fallbacks {n}{' elsewhere' * elsewhere}": partial(with_fallbacks, behind=n, elsewhere=elsewhere)
        for n in (1, 2, 3)
        for elsewhere in (False, True)
    },
}
"""What is done to a fabric, by name."""


# -- drawn -------------------------------------------------------------------------------------------------------------

MODES = ("consecutive", "cumulative", "window", "rate")
SIGNALS = (["server_error"], ["rate_limit", "server_error"], ["timeout", "server_error"], ["rate_limit"])
LAST = [reaction for reaction in Reaction if reaction not in BOUNDED_ONLY]
BEFORE = sorted(BOUNDED_ONLY - LAYERS_ONLY)


def drawn_breaker(rng: Random, *, model: bool, static: bool) -> JSON:
    """A breaker of any scope, of one signal or two. ``model``, ``static``: which fallbacks the fabric has."""
    names = rng.sample(SIGNALS, rng.choice((1, 1, 2)))
    modes = rng.sample(MODES, len(names))
    scope = rng.choice(SCOPES)
    opens = ["none", *["model"] * (model and scope != "tool"), *["static_answer"] * static]
    return {
        "scope": scope,
        "signals": [
            {"names": one, "mode": mode, "min_calls": rng.choice((2, 10)), "threshold": _threshold(rng, mode)}
            for one, mode in zip(names, modes, strict=True)
        ],
        "cooldown_s": rng.choice((30.0, 120.0, 1_000.0)),
        "max_trips": rng.choice((0, 1, 2, 3)),
        "on_open": rng.choice(opens),
    }


def _threshold(rng: Random, mode: str) -> float:
    return rng.choice((0.2, 0.5, 0.8)) if mode == "rate" else rng.randint(1, 6)


def drawn_layers(rng: Random, *, lead: bool) -> JSON:
    """Retry layers with ways out that the fabric has."""
    ways = ["replan"] + ["handover"] * lead
    classes = (None, "transient_infra", "deterministic", "budget_exhausted")

    def out() -> JSON:
        said: JSON = {}
        if rng.random() < 0.5:
            said["edges"] = [{"to": rng.choice(ways), "failure_class": rng.choice(classes)}]
        if rng.random() < 0.3:
            said["retry_target"] = rng.choice(ways)
        return said

    nodes = {
        stage: {**out(), **rng.choice(({}, {"max_retries": rng.randint(0, 4)}, {"retry_policy": rng.choice(PRESETS)}))}
        for stage in rng.sample(STAGES, 3)
    }
    return {**out(), "stages": nodes, **rng.choice(({}, {"max_retries": rng.randint(0, 3)}))}


def drawn_rungs(rng: Random, *, layers: bool) -> list[JSON]:
    """A ladder of up to three bounded rungs; retries few enough for the retry budget."""
    names = [reaction for reaction in BEFORE if not (layers and reaction in UP)]
    rungs: list[JSON] = [
        {"reaction": str(one), "times": rng.randint(1, 2 if one is Reaction.RETRY else 3)}
        for one in rng.sample(names, rng.randint(0, 3))
    ]
    return [*rungs, {"reaction": str(rng.choice(LAST))}]


def drawn(seed: int) -> tuple[FabricSpec, FailureType, Tier, Person, int | None]:
    """A fabric with whatever may stand around a call, a cell of it, what people say, and after how many decisions the failure is gone."""
    rng = Random(f"around {seed}")
    lead, behind, static, layers = (
        rng.random() < 0.3,
        rng.choice((0, 0, 1, 2, 3)),
        rng.random() < 0.5,
        rng.random() < 0.5,
    )
    failure = rng.choice([*[FailureType.PROVIDER] * 3, *FailureType])
    tier = rng.choice(list(Tier))
    ladder = {"rungs": drawn_rungs(rng, layers=layers), "deviation": "it is drilled"}
    cells = {str(failure): {str(tier): ladder}} if rng.random() < 0.6 else {}
    changes: JSON = {"safe_fallback": ANSWER} if static else {}
    spec = drilled(lead=lead, decision_table=cells, **changes)
    spec = with_fallbacks(spec, behind, rng.random() < 0.5) if behind else spec
    spec = layered(spec, **drawn_layers(rng, lead=lead)) if layers else spec
    breakers = [drawn_breaker(rng, model=behind > 0, static=static) for _ in range(rng.choice((0, 1, 1, 2)))]
    by_scope = {one["scope"]: one for one in breakers}
    room = {"deadlines": ROOM} if rng.random() < 0.8 else {}
    spec = with_policy(spec, breakers=list(by_scope.values()), **room)
    overrun = failure is FailureType.COST_OVERRUN
    person: Person = ("raise" if overrun else "approve") if rng.random() < 0.5 else "reject"
    return spec, failure, tier, person, None if overrun else rng.choice((None, None, 1, 2, 3))
