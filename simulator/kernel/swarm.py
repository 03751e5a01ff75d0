"""Swarm testing: each seed draws its own fabric, limits, requests, processes and a random subset of the faults (reliability.md 3.3).

A fabric is drawn from a pool of numbered variants, because reading one costs more than simulating it; a variant is a function of its number alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Literal

from fabric.core.children import id_of
from fabric.core.context import Compiled
from fabric.core.decision_table import BOUNDED_ONLY, LAYERS_ONLY, Reaction
from fabric.core.fingerprint import digest
from fabric.core.spec import FabricSpec
from fabric.core.spec_memories import OFFERED, tool_name
from fabric.core.taxonomy import FailureType, Tier
from fabric.runtime.ports import Document
from simulator.kernel import conversing, faults, remembering
from simulator.kernel.clock import EPOCH_US, US
from simulator.kernel.people import eyes
from simulator.kernel.published import Fabric, publish
from simulator.kernel.services import BOOK, CANCEL, FIND, WIRE
from simulator.kernel.swarm_agents import owning
from simulator.kernel.swarm_below import booking
from simulator.kernel.swarm_breakers import named
from simulator.kernel.swarm_gates import judged
from simulator.kernel.swarm_layers import layered
from simulator.kernel.swarm_outputs import asking, overwriting, planning, priced, typed
from simulator.kernel.swarm_rates import rated
from simulator.kernel.swarm_shapes import shaped
from simulator.kernel.swarm_stages import differing

JSON = Any
VARIANTS = 600
"""Fabrics in the pool."""
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
class Names:
    """What a world calls its runs. Nothing that is drawn, and nothing that is decided, depends on it."""

    salt: str = ""
    """Makes the ids of its runs its own, so that runs of several worlds of one seed can be kept side by side; empty: the seed's."""
    workspace_id: str = "workspace"
    """The workspace that its runs are of."""

    def of(self, part: str) -> Names:
        """The names of one of several worlds that are kept together."""
        return Names(f"{self.salt} {part}", self.workspace_id) if self.salt else self

    def run_id(self, seed: int, what: str, number: int) -> str:
        """The id of a run that comes from outside; with a salt a UUID, like any run's that is kept."""
        if not self.salt:
            return digest(seed, what, number)
        made = id_of(digest(seed, self.salt), f"{what}.{number}")
        return f"{made[:14]}7{made[15:]}"  # Version 8 is a child's alone.


AS_DRAWN = Names()
"""Those of the seed alone."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a seed decides before time begins."""

    seed: int
    fabric: Fabric
    rates: faults.Rates
    runs: tuple[RunPlan, ...]
    processes: int
    fault_phase_s: float
    """How long things may go wrong, virtual seconds."""
    answers_within: float
    """People answer after up to this share of the time they have; over 1: some are late."""
    verb: Literal["approve", "reject"] | None = None
    """What people say each time; None: it is drawn."""
    raises: int = 0
    """Times the present cap that finance names with each approval of an overrun; 0: it is drawn, and none where ``verb`` is given."""
    documents: tuple[Document, ...] = DOCUMENTS
    """What is attached to the runs that have any."""
    caps: bool = True
    """Whether the workspace has a cap where the seed says so; False: nobody gave it one."""
    names: Names = AS_DRAWN
    """What its runs are called."""
    policy_at_s: float | None = None
    """When the workspace gets a policy, virtual seconds; None: never."""

    def compiled_at(self, now_us: int) -> Compiled:
        """The fabric as a worker loads it at an instant: under the workspace's policy once it has one."""
        since = self.policy_at_s
        had = since is not None and now_us >= EPOCH_US + int(since * US)
        return self.fabric.under_policy if had else self.fabric.compiled


def draw(seed: int) -> Setup:
    """The setup of a seed."""
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
        rates=faults.with_later(faults.draw(rng), Random(f"later {seed}")),  # noqa: S311 - the same
        runs=runs,
        processes=rng.choice((1, 2, 2, 3)),
        fault_phase_s=rng.choice((20.0, 120.0, 900.0, 200_000.0)),
        answers_within=rng.choice((0.01, 0.3, 0.8, 1.2)),
        policy_at_s=_policy_at(Random(f"policy {seed}")),  # noqa: S311 - the same
    )


def _policy_at(rng: Random) -> float | None:
    """One workspace in 25 gets its policy while its runs go on."""
    return rng.uniform(0.0, 60.0) if rng.random() < 0.04 else None


@lru_cache(maxsize=VARIANTS)
def variant(number: int) -> Fabric:
    """The fabric of that number."""
    rng = Random(f"fabric {number}")  # noqa: S311 - a simulation is to be repeatable
    tree = _spec(rng, number)
    family = Random(f"family {number}")  # noqa: S311 - of its own, so that fabrics without children stay as they were
    tree["policy"]["limits"]["fan_out_inline_max"] = family.choice((64, 64, 1, 2, 3))
    _above(tree, Random(f"above {number}"))  # noqa: S311 - the same
    _swaps(tree, Random(f"swaps {number}"))  # noqa: S311 - the same
    _loops(tree, Random(f"loops {number}"))  # noqa: S311 - the same
    _remembers(tree, Random(f"memory {number}"))  # noqa: S311 - the same
    eyes(tree, Random(f"eyes {number}"))  # noqa: S311 - the same
    for draw in (judged, layered, named, owning, typed, planning, overwriting, asking, priced):
        draw(tree, number)
    conversing.drawn(tree, number)
    differing(tree, number)
    led = booking(tree, number)
    anew = led and Random(f"plans below {number}").random() < 0.5  # noqa: S311 - the same
    shaped(tree, number, lead=family.random() < 0.2 or led, anew=anew)
    return publish(FabricSpec.model_validate(tree), f"revision-{number}")


def _above(tree: JSON, rng: Random) -> None:
    """In some fabrics a stronger agent above the others, a static answer, a limit of visits."""
    if rng.random() < 0.4:
        lead = _agent(rng, "lead", [])
        tree["agents"].append({**lead, "answers": "json"})
        tree["topology"]["handover"] = "lead"
    if rng.random() < 0.3:
        tree["safe_fallback"] = "This cannot be answered here."
    if rng.random() < 0.15:
        tree["policy"]["limits"]["max_node_visits"] = rng.choice((1, 2))


def _swaps(tree: JSON, rng: Random) -> None:
    """In some fabrics with fallbacks cells swap sooner than by default, in a tier that must not as well."""
    if not tree["models"][0].get("fallbacks"):
        return
    swap: JSON = {"reaction": Reaction.FALLBACK_MODEL, "times": rng.choice((1, 2))}
    for failure in (
        FailureType.PROVIDER,
        FailureType.SCHEMA_GROUNDING,
        FailureType.COST_OVERRUN,
        FailureType.UNSAFE_OUTPUT,
    ):
        for tier in TIERS if rng.random() < 0.6 else ():
            row = tree["decision_table"].setdefault(failure, {})
            row[tier] = {"rungs": [swap, {"reaction": Reaction.ESCALATE}]}


def _loops(tree: JSON, rng: Random) -> None:
    """In some fabrics one document's rule against loops in place of the detectors, and another limit of errors that come back."""
    if rng.random() < 0.35:
        preset = rng.choice(("flow", "fabro", "ag2"))
        # S1's ten turns are more than most agents of the swarm live to see.
        tree["policy"]["loop_detector"] = {"preset": preset, "period_window": rng.choice((4, 6, 10))}
    if rng.random() < 0.3:
        tree["policy"].setdefault("failure_signature", {})["limit"] = rng.choice((0, 1, 2))


def _remembers(tree: JSON, rng: Random) -> None:
    """In some fabrics memories, which its agents with tools may use."""
    tree["memories"] = remembering.drawn(rng)
    named = [tool_name(verb, one["name"]) for one in tree["memories"] for verb in OFFERED]
    for agent in tree["agents"]:
        if agent["tools"] or agent["name"].startswith("worker"):
            agent["tools"] = [*agent["tools"], *named]


# -- drawing a fabric --------------------------------------------------------------------------------------------------


def _spec(rng: Random, number: int) -> JSON:
    workers = [f"worker-{n}" for n in range(1 + rng.randrange(4))]
    tools = ["lookup", "poll", "put"][: rng.choice((0, 1, 1, 3))]
    changing = _changing(Random(f"changes {number}"))  # noqa: S311 - a simulation is to be repeatable
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


def _changing(rng: Random) -> dict[str, JSON]:
    """Tools that change the world, in some fabrics: one that can be undone, perhaps one that cannot, and what belongs to them."""
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
    """A dear one and a cheap one; in some fabrics a chain of fallbacks behind the dear one: at its endpoint, elsewhere, one that can less."""
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
    """The model that stands behind the dear one, in some fabrics."""
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
    """None, a preset or two, or one that opens at once, in front of anything."""
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
    _shared(budget, Random(f"shares {workers} {budget} {limits}"))  # noqa: S311 - the same
    policy["breakers"] = _breakers(Random(f"breakers {workers} {budget} {limits}"))  # noqa: S311 - the same
    policy["humans"] = {"due_s": rng.choice((None, None, 60.0, 600.0)), "failure_rounds": rng.choice((1, 2))}
    mode = rng.choice(("all", "all", "quorum", "best_effort"))
    _token_caps(budget, Random(f"tokens {workers} {budget} {limits}"))  # noqa: S311 - the same
    rated(policy, Random(f"rates {workers} {budget} {limits}"))  # noqa: S311 - the same
    limits["run_events"] = rng.choice((60, 150, *(20_000,) * 6))
    limits["run_payload_bytes"] = rng.choice((3_000, *(50_000_000,) * 7))
    limits["pending_calls"] = rng.choice((3, *(1_024,) * 7))
    limits["content_bytes"] = rng.choice((600, *(1_000_000,) * 7))
    policy["fan_in"] = {"mode": mode, "k": 1 + rng.randrange(workers) if mode == "quorum" else None}
    return policy


def _shared(budget: JSON, rng: Random) -> None:
    """Caps that cross runs, in some fabrics, small enough to be met."""
    if rng.random() < 0.35:
        budget["fabric_hour_usd_micros"] = rng.choice((3_000, 30_000, 100_000, 300_000))
    if rng.random() < 0.2:
        budget["session_usd_micros"] = budget["run_usd_micros"] * rng.choice((1, 1, 2))


def _token_caps(budget: JSON, rng: Random) -> None:
    """Tokens of stages and agents, in some fabrics, few enough to be met."""
    few = (3_000, 15_000, 60_000)
    budget |= {name: rng.choice(few) for name in ("stage_tokens", "agent_tokens") if rng.random() < 0.1}
    if rng.random() < 0.1:
        most = budget.setdefault("run_tokens", 60_000)
        budget["session_tokens"] = most * rng.choice((1, 1, 2))


def _cells(rng: Random) -> JSON:
    """Cells that differ from the default table, in some fabrics."""
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
