"""Draws a world for each seed: fabric, limits, requests, processes and a random subset of the faults.

This is swarm testing (docs/specification/durability.md). A fabric comes from a pool of numbered variants, because
reading one costs more than simulating it; a variant is a function of its number alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal

from fabric.core.child_runs.children import build_id
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.memories import OFFERED, tool_name
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY, LAYERS_ONLY, Reaction
from fabric.core.state.context import CompiledFabric
from fabric.core.values.fingerprint import digest
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON, US
from fabric.runtime.ports.journal import Document
from simulator.cast import conversations as conversing
from simulator.cast import memories as remembering
from simulator.cast.people import eyes
from simulator.cast.services import BOOK, CANCEL, FIND, WIRE
from simulator.clockwork.clock import EPOCH_US
from simulator.faults import catalogue as faults
from simulator.rules.answers.checks import draw_overwriting, draw_planning, draw_prices, draw_schemas, draw_tool_rules
from simulator.rules.budgets.checks import draw_rates
from simulator.rules.calls.checks import draw_agents
from simulator.rules.decisions.checks import draw_differences
from simulator.rules.gates.checks import draw_judges
from simulator.rules.models.checks import draw_names
from simulator.rules.retries.checks import draw_layers
from simulator.rules.topologies.checks import draw_topology
from simulator.swarm.fabrics import Fabric, publish

VARIANTS = 600
"""Number of fabrics in the pool."""
DOCUMENTS = (Document("report.md", "Sales rose by 4 percent. Costs fell."), Document("notes.md", "Nothing of note."))
TIERS = tuple(Tier)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run to be started."""

    at_s: float
    tier: Tier
    documents: bool
    text: str
    seed: int


@dataclass(frozen=True, slots=True)
class WorldNames:
    """Names of a world's runs. No draw and no decision depends on them."""

    salt: str = ""
    """Makes the ids unique, so that runs of several worlds of one seed can be kept. Empty for the seed's ids."""
    workspace_id: str = "workspace"
    """Workspace of its runs."""

    def select_part(self, part: str) -> WorldNames:
        """Return the names of one of several worlds that are kept together."""
        return WorldNames(f"{self.salt} {part}", self.workspace_id) if self.salt else self

    def run_id(self, seed: int, what: str, number: int) -> str:
        """Return the id of a run from outside; with a salt a UUID, like any kept run's."""
        if not self.salt:
            return digest(seed, what, number)
        made = build_id(digest(seed, self.salt), f"{what}.{number}")
        return f"{made[:14]}7{made[15:]}"  # Version 8 is a child's alone.


AS_DRAWN = WorldNames()
"""Names by the seed alone."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a seed decides before time begins."""

    seed: int
    fabric: Fabric
    rates: faults.Rates
    runs: tuple[RunPlan, ...]
    processes: int
    fault_phase_s: float
    """Duration of the phase with faults, in virtual seconds."""
    answers_within: float
    """Largest share of the available time that people take to answer; over 1 some are late."""
    verb: Literal["approve", "reject"] | None = None
    """Answer of people to every review; None: drawn."""
    raises: int = 0
    """Factor of the present cap that finance names when it approves an overrun; 0: drawn, or none with ``verb``."""
    documents: tuple[Document, ...] = DOCUMENTS
    """Documents of the runs that have any."""
    caps: bool = True
    """True: the workspace has a cap if the seed says so; False: it has none."""
    names: WorldNames = AS_DRAWN
    """Names of its runs."""
    policy_at_s: float | None = None
    """Instant at which the workspace gets a policy, in virtual seconds; None: never."""

    def compiled_at(self, now_us: int) -> CompiledFabric:
        """Return the fabric as a worker loads it at an instant. By then the workspace may have a policy."""
        since = self.policy_at_s
        had = since is not None and now_us >= EPOCH_US + int(since * US)
        return self.fabric.under_policy if had else self.fabric.compiled


def draw(seed: int) -> Setup:
    """Return the setup of a seed."""
    rng = Random(seed)  # noqa: S311 - a simulation is to be repeatable
    runs = tuple(
        RunPlan(
            at_s=rng.choice((0.0, 0.0, 0.0, 1.0, 30.0)) * rng.random(),
            tier=rng.choice(TIERS),
            documents=rng.random() < 0.8,
            text="What does the report say?" + " Please." * rng.randrange(3),
            seed=rng.getrandbits(32),
        )
        for _ in range(rng.choice((1, 1, 1, 1, 1, 1, 1, 2, 2, 3)))
    )
    return Setup(
        seed=seed,
        fabric=variant(rng.randrange(VARIANTS)),
        rates=faults.add_later(faults.draw(rng), Random(f"later {seed}")),  # noqa: S311 - the same
        runs=runs,
        processes=rng.choice((1, 2, 2, 3)),
        fault_phase_s=rng.choice((20.0, 120.0, 900.0, 200_000.0)),
        answers_within=rng.choice((0.01, 0.3, 0.8, 1.2)),
        policy_at_s=_policy_at(Random(f"policy {seed}")),  # noqa: S311 - the same
    )


def _policy_at(rng: Random) -> float | None:
    """Draw the instant of a policy: one workspace in 25 gets it while its runs go on."""
    return rng.uniform(0.0, 60.0) if rng.random() < 0.04 else None


@lru_cache(maxsize=VARIANTS)
def variant(number: int) -> Fabric:
    """Return the fabric of that number."""
    rng = Random(f"fabric {number}")  # noqa: S311 - a simulation is to be repeatable
    tree = _spec(rng, number)
    family = Random(f"family {number}")  # noqa: S311 - of its own, so that fabrics without children stay as they were
    tree["policy"]["limits"]["fan_out_inline_max"] = family.choice((64, 64, 1, 2, 3))
    _draw_superior(tree, Random(f"above {number}"))  # noqa: S311 - the same
    _fallback_rungs(tree, Random(f"swaps {number}"))  # noqa: S311 - the same
    _loops(tree, Random(f"loops {number}"))  # noqa: S311 - the same
    _remembers(tree, Random(f"memory {number}"))  # noqa: S311 - the same
    eyes(tree, Random(f"eyes {number}"))  # noqa: S311 - the same
    for draw in (
        draw_judges,
        draw_layers,
        draw_names,
        draw_agents,
        draw_schemas,
        draw_planning,
        draw_overwriting,
        draw_tool_rules,
        draw_prices,
    ):
        draw(tree, number)
    conversing.draw_conversation(tree, number)
    draw_differences(tree, number)
    draw_topology(tree, number, lead=family.random() < 0.2)
    return publish(FabricSpec.model_validate(tree), f"revision-{number}")


def _draw_superior(tree: JSON, rng: Random) -> None:
    """Give some fabrics a stronger agent above the others, a static answer, or a limit of visits."""
    if rng.random() < 0.4:
        lead = _agent(rng, "lead", [])
        tree["agents"].append({**lead, "answers": "json"})
        tree["topology"]["handover"] = "lead"
    if rng.random() < 0.3:
        tree["safe_fallback"] = "This cannot be answered here."
    if rng.random() < 0.15:
        tree["policy"]["limits"]["max_node_visits"] = rng.choice((1, 2))


def _fallback_rungs(tree: JSON, rng: Random) -> None:
    """Let cells take fallback models sooner in some fabrics, even in a tier that must not."""
    if not tree["models"][0].get("fallbacks"):
        return
    rung: JSON = {"reaction": Reaction.FALLBACK_MODEL, "times": rng.choice((1, 2))}
    for failure in (
        FailureType.PROVIDER,
        FailureType.SCHEMA_GROUNDING,
        FailureType.COST_OVERRUN,
        FailureType.UNSAFE_OUTPUT,
    ):
        for tier in TIERS if rng.random() < 0.6 else ():
            row = tree["decision_table"].setdefault(failure, {})
            row[tier] = {"rungs": [rung, {"reaction": Reaction.ESCALATE}]}


def _loops(tree: JSON, rng: Random) -> None:
    """Give some fabrics a preset against loops in place of the detectors, and another limit of repeated errors."""
    if rng.random() < 0.35:
        preset = rng.choice(("flow", "fabro", "ag2"))
        # S1's ten turns are more than most agents of the swarm live to see.
        tree["policy"]["loop_detector"] = {"preset": preset, "period_window": rng.choice((4, 6, 10))}
    if rng.random() < 0.3:
        tree["policy"].setdefault("failure_signature", {})["limit"] = rng.choice((0, 1, 2))


def _remembers(tree: JSON, rng: Random) -> None:
    """Give some fabrics memories, which their agents with tools may use."""
    tree["memories"] = remembering.draw_memories(rng)
    named = [tool_name(verb, one["name"]) for one in tree["memories"] for verb in OFFERED]
    for agent in tree["agents"]:
        if agent["tools"] or agent["name"].startswith("worker"):
            agent["tools"] = [*agent["tools"], *named]


# -- drawing a fabric --------------------------------------------------------------------------------------------------


def _spec(rng: Random, number: int) -> JSON:
    workers = [f"worker-{n}" for n in range(1 + rng.randrange(4))]
    tools = ["lookup", "poll", "put"][: rng.choice((0, 1, 1, 3))]
    changing = _draw_changing_tools(Random(f"changes {number}"))  # noqa: S311 - a simulation is to be repeatable
    tools += [name for name in (BOOK, WIRE) if name in changing]
    topology: dict[str, JSON] = {"workers": workers}
    if rng.random() < 0.7:
        topology["planner"] = "planner"
    else:
        briefs = [
            {"agent": name, "title": f"Part of {name}", "instructions": "Say what bears on it."} for name in workers
        ]
        topology["plan"] = {"goal": "Answer it.", "briefs": briefs, "exit_criteria": ["The request is answered."]}
    topology |= {role: role for role in ("aggregator", "critic", "finalizer") if rng.random() < 0.6}
    named = [*workers, *(role for role in ("planner", "aggregator", "critic", "finalizer") if role in topology)]
    return {
        "name": f"swarm-{number}",
        "title": "A fabric of the swarm",
        "models": _models(rng, number),
        "tools": [
            {"name": name, "polling": name == "poll", "effect": "idempotent" if name == "put" else "read_only"}
            for name in tools
            if name not in changing
        ]
        + list(changing.values()),
        "agents": [_agent(rng, name, tools) for name in named],
        "topology": topology,
        "gates": {
            "citations": rng.choice(("off", "exist", "required")),
            "max_outcome_chars": 9 if rng.random() < 0.08 else None,
        },
        "policy": _policy(rng, len(workers)),
        "decision_table": _cells(rng),
    }


def _draw_changing_tools(rng: Random) -> dict[str, JSON]:
    """Return tools that change the world, for some fabrics: reversible and irreversible ones, with their companions."""
    if rng.random() < 0.6:
        return {}
    book: JSON = {"name": BOOK, "effect": "mutating", "compensation": CANCEL, "carry_over": rng.random() < 0.25}
    found = {BOOK: book, CANCEL: {"name": CANCEL, "effect": "idempotent"}}
    if rng.random() < 0.5:
        book["reconcile"] = FIND
        found[FIND] = {"name": FIND}
    if rng.random() < 0.4:
        waived = {"approval": "waived", "deviation": "Small sums."} if rng.random() < 0.5 else {}
        found[WIRE] = {"name": WIRE, "effect": "irreversible", **waived}
    return found


def _models(rng: Random, number: int) -> list[JSON]:
    """Return an expensive and a cheap model; in some fabrics with a chain of fallbacks behind the expensive one."""
    low = {"input_usd_per_mtok": "0.1", "output_usd_per_mtok": "0.1"}
    dear = {"name": "model", "provider": "scripted", "price": _price(rng), "cheaper": _cheaper(number)}
    models: list[JSON] = [dear, {"name": "small", "provider": "scripted", "price": low}]
    own = Random(f"fallbacks {number}")  # noqa: S311 - of its own, so that fabrics without fallbacks stay as they were
    if own.random() < 0.4:
        dear["fallbacks"] = own.choice((["small"], ["away"], ["away", "small"], ["mute", "away"]))
        high = {"input_usd_per_mtok": "1.5", "output_usd_per_mtok": "9"}
        models.append({"name": "away", "provider": "elsewhere", "price": own.choice((low, high))})
        models.append({"name": "mute", "provider": "elsewhere", "price": low, "tool_calls": False})
    return models


def _cheaper(number: int) -> str | None:
    """Return the fallback of the expensive model, in some fabrics."""
    return "small" if number % 2 else None


def _price(rng: Random) -> JSON:
    if rng.random() < 0.02:
        return None
    return rng.choice(
        (
            {"input_usd_per_mtok": "0", "output_usd_per_mtok": "0"},
            {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"},
        )
    )


def _agent(rng: Random, name: str, tools: list[str]) -> JSON:
    worker = name.startswith("worker")
    return {
        "name": name,
        "instructions": f"You are {name}.",
        "model": "small" if rng.random() < 0.2 else "model",
        "tools": tools if worker or rng.random() < 0.2 else [],
        "answers": "text" if name not in ("planner", "critic") and rng.random() < 0.2 else "json",
        "max_output_tokens": rng.choice((200, 1_000)),
        "inline_document_chars": rng.choice((0, 0, 100)),
    }


def _breakers(rng: Random) -> list[JSON]:
    """Return no breaker, one or two presets, or a sensitive one of any scope."""
    touchy = {"names": [rng.choice(("timeout", "server_error", "rate_limit"))], "mode": "cumulative", "threshold": 1}
    scope = rng.choice(("agent", "provider", "tool", "stage", "fabric"))
    probes = Random(f"probes {scope} {touchy} {rng.random()}")  # noqa: S311 - a simulation is to be repeatable
    quick = {
        "scope": scope,
        "half_open_max": probes.choice((1, 1, 2, 3)),
        "success_threshold": probes.choice((1, 2, 3)),
        "signals": [touchy],
        "cooldown_s": rng.choice((2.0, 60.0)),
        "max_trips": rng.choice((1, 3)),
        "on_open": Random(f"on open {scope} {touchy}").choice(("none", "model", "static_answer")),  # noqa: S311 - of its own
    }
    few: list[list[JSON]] = [[], [], [{"preset": "endpoint"}], [{"preset": "semantic"}], [quick]]
    return rng.choice(
        [*few, [{"preset": "endpoint", "cooldown_s": 5.0}, {"preset": "semantic", "scope": scope}, quick]]
    )


def _policy(rng: Random, workers: int) -> JSON:
    def one_in(n: int) -> bool:
        return rng.random() < 1 / n

    budget = {"run_usd_micros": rng.choice((40_000, 150_000, *(5_000_000,) * 5))}
    budget |= {
        f"{scope}_usd_micros": rng.choice((9_000, 25_000, 90_000)) for scope in ("call", "stage", "agent") if one_in(8)
    }
    if one_in(8):
        budget["run_tokens"] = rng.choice((40_000, 200_000))
    limits = {
        "turns": rng.choice((2, 4, 25, 25)),
        "calls_per_turn": rng.choice((1, 2, 16)),
        "corrections_per_step": rng.choice((1, 2, 3)),
        "replans_per_stage": rng.choice((1, 2, 2)),
        "plan_branches": rng.choice((workers, 4, 16)),
        "sub_agents_spawned": rng.choice((4, 8, 64, 64, 64)),
        "sub_agents_alive": rng.choice((2, 4, 16, 16, 16, 16, 16)),
    }
    policy: dict[str, JSON] = {"budget": budget, "limits": limits, "tau": 0.7}
    if one_in(5):
        call_s = rng.choice((1.0, 3.0, 20.0))
        policy["deadlines"] = {
            tier: {"call_s": call_s, "stage_s": call_s * rng.choice((2, 8)), "run_s": call_s * rng.choice((6, 30))}
            for tier in TIERS
        }
    policy["retry"] = {"base_s": rng.choice((0.1, 1.0, 5.0)), "bucket": rng.choice((1, 3, 10)), "cap_s": 60.0}
    saga = Random(f"saga {workers} {budget}")  # noqa: S311 - a simulation is to be repeatable
    policy["saga"] = {
        "unwind_on_cancel": saga.random() < 0.8,
        "compensation_attempts": saga.choice((1, 3, 5)),
        "reconcile_attempts": saga.choice((1, 3)),
        "retry_base_s": saga.choice((0.1, 1.0)),
    }
    _draw_shared_caps(budget, Random(f"shares {workers} {budget} {limits}"))  # noqa: S311 - the same
    policy["breakers"] = _breakers(Random(f"breakers {workers} {budget} {limits}"))  # noqa: S311 - the same
    policy["humans"] = {"due_s": rng.choice((None, None, 60.0, 600.0)), "failure_rounds": rng.choice((1, 2))}
    mode = rng.choice(("all", "all", "quorum", "best_effort"))
    _token_caps(budget, Random(f"tokens {workers} {budget} {limits}"))  # noqa: S311 - the same
    draw_rates(policy, Random(f"rates {workers} {budget} {limits}"))  # noqa: S311 - the same
    limits["run_events"] = rng.choice((60, 150, *(20_000,) * 6))
    limits["run_payload_bytes"] = rng.choice((3_000, *(50_000_000,) * 7))
    limits["pending_calls"] = rng.choice((3, *(1_024,) * 7))
    limits["content_bytes"] = rng.choice((600, *(1_000_000,) * 7))
    policy["fan_in"] = {"mode": mode, "k": 1 + rng.randrange(workers) if mode == "quorum" else None}
    return policy


def _draw_shared_caps(budget: JSON, rng: Random) -> None:
    """Give some fabrics shared caps that are small enough to be reached."""
    if rng.random() < 0.35:
        budget["fabric_hour_usd_micros"] = rng.choice((3_000, 30_000, 100_000, 300_000))
    if rng.random() < 0.2:
        budget["session_usd_micros"] = budget["run_usd_micros"] * rng.choice((1, 1, 2))


def _token_caps(budget: JSON, rng: Random) -> None:
    """Give some fabrics token caps of stages and agents that are small enough to be reached."""
    few = (3_000, 15_000, 60_000)
    budget |= {name: rng.choice(few) for name in ("stage_tokens", "agent_tokens") if rng.random() < 0.1}
    if rng.random() < 0.1:
        most = budget.setdefault("run_tokens", 60_000)
        budget["session_tokens"] = most * rng.choice((1, 1, 2))


def _cells(rng: Random) -> JSON:
    """Give some fabrics cells that differ from the default table."""
    if rng.random() < 0.6:
        return {}
    return {
        failure: {tier: _ladder(rng) for tier in TIERS if rng.random() < 0.3}
        for failure in FailureType
        if rng.random() < 0.4
    }


def _ladder(rng: Random) -> JSON:
    given = [reaction for reaction in Reaction if reaction not in LAYERS_ONLY]
    lasts = [reaction for reaction in given if reaction not in BOUNDED_ONLY]
    rungs: list[JSON] = [
        {"reaction": rng.choice([*given, Reaction.REPLAN, Reaction.REPLAN]), "times": rng.randrange(1, 3)}
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    return {"rungs": [*rungs, {"reaction": rng.choice(lasts)}]}
