"""Drives the undisturbed run of any fabric, which drills disturb and compare with (docs/specification/drills.md).

1. Scripted agents answer in place of the fabric's models, and work as well as they can: documents are attached, every
   worker gets a part of the plan, and critics agree.
2. Tools that read documents or calculate are the real ones.
3. The virtual world's service does changes, under its keys. Any other tool reports success.
4. Nothing leaves the process.
5. After the disturbance one more run starts in the same world, with its breakers and budgets. Each run's behaviour is
   read from its journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fabric.composition.engine import compile_revision
from fabric.core.events.envelope import JournalRow, fact_json, from_row, split_row
from fabric.core.events.inputs import ToolFinished
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON, US
from fabric.runtime.ports.calls import ModelRequest, ToolRequest
from fabric.runtime.ports.journal import Document
from fabric.tools import calculator, documents
from fabric.tools import runner as registry
from fabric.tools.answers.outcome import ToolError
from simulator.agents import script as scripted
from simulator.agents.streams import add_streamed_parts
from simulator.cast.agents import Reply
from simulator.cast.services import BOOK, CANCEL, FIND
from simulator.faults import catalogue as faults
from simulator.scenarios.baseline.bounds import LONGEST_S
from simulator.scenarios.promises.expectation import LINKED, Chain, Person, build_chain
from simulator.swarm import setups as swarm
from simulator.swarm.fabrics import Fabric
from simulator.swarm.setups import AS_DRAWN, WorldNames
from simulator.world.world import World

Ask = Callable[[ModelRequest], Reply]
Serve = Callable[[ToolRequest], Reply]
REQUEST = "What does the report say?"
SECONDS = 0.5
"""Virtual seconds that each answer takes."""
RAISES = 100
"""Factor of the cap that finance names: far more than the run needs, so that its rate does not matter."""
CONTENT = {"score": 1.0}
"""Options of the scripted agents, with which critics agree."""


@keep_results
def scripted_models(spec: FabricSpec) -> FabricSpec:
    """Return the fabric with the scripted agents' models, without the options of its own models."""
    models = tuple(model.model_copy(update={"options": CONTENT}) for model in spec.models)
    return spec.model_copy(update={"models": models})


@keep_results
def _dump(spec: FabricSpec) -> str:
    return spec.model_dump_json(by_alias=True)


@lru_cache(maxsize=64)
def _publish(dumped: str) -> Fabric:
    spec = FabricSpec.model_validate_json(dumped)
    return Fabric("drilled", compile_revision(spec), {tool.name: registry.offers(tool) for tool in spec.asked_tools})


def compile_published(spec: FabricSpec) -> Fabric:
    """Compile the fabric as this installation publishes it: with real tool schemas, gates, and prices.

    Raises ValueError or KeyError if it cannot be compiled.
    """
    return _publish(_dump(spec))


def answer_cooperatively(request: ModelRequest) -> Reply:
    """Return a model's answer without disturbance."""
    return add_streamed_parts(request, Reply(SECONDS, scripted.answer(request).result))


def drill_tools(spec: FabricSpec, run: Serve) -> Serve:
    """Return the tools of a drill. ``run``: the virtual world's own tools, whose service books, cancels and lists."""
    undoing = {tool.compensation: CANCEL for tool in spec.tools if tool.compensation}
    asking = {tool.reconcile: FIND for tool in spec.tools if tool.reconcile}
    of_service = {tool.name: BOOK for tool in spec.tools if tool.effect in CHANGING} | undoing | asking

    def serve(request: ToolRequest) -> Reply:
        if request.memory is not None:
            return run(request)
        if name := of_service.get(request.tool.name):
            return run(replace(request, tool=request.tool.model_copy(update={"name": name})))
        return Reply(SECONDS, _do_call(request))

    return serve


Disturbing = Callable[[World, Ask, Serve], tuple[Ask, Serve]]
"""Takes a new world and its models and tools, and returns disturbed ones."""


def leave_undisturbed(_: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
    """Return models and tools unchanged."""
    return ask, serve


CHANGING = ("mutating", "irreversible")


def _do_call(request: ToolRequest) -> ToolFinished:
    ids: dict[str, Any] = {"command_id": request.command_id, "attempt": request.attempt}
    own = OWN.get(registry.find_builtin(request.tool)) if request.tool.kind == "builtin" else None
    if wrong := registry.build_validator(request.tool)(dict(request.args)):
        return ToolFinished(**ids, result=None, error=f"the arguments do not fit: {'; '.join(wrong)}")
    try:
        return ToolFinished(**ids, result=own(request) if own else {"status": "done"})
    except ToolError as error:
        return ToolFinished(**ids, result=None, error=str(error))


OWN: Mapping[str, Callable[[ToolRequest], JSON]] = {
    "read_document": lambda request: documents.read_document(request.documents(), **request.args),
    "search_documents": lambda request: documents.search_documents(request.documents(), **request.args),
    "calculator": lambda request: calculator.calculate(**request.args),
}
"""Built-in tools without effects outside the process, by name: they work in a drill too."""


@dataclass(frozen=True, slots=True)
class Work:
    """Input of a run, and size of its fleet."""

    text: str = REQUEST
    documents: tuple[Document, ...] = swarm.DOCUMENTS
    processes: int = 1
    starts_s: tuple[float, ...] = (0.0,)
    """Virtual seconds at which its runs start."""


def drive(
    spec: FabricSpec,
    tier: Tier,
    *,
    seed: int,
    person: Person = "reject",
    disturbed: Disturbing = leave_undisturbed,
    work: Work = Work(),
    names: WorldNames = AS_DRAWN,
) -> World:
    """Simulate a world with one run of the fabric, or several in turn, to its end.

    ``disturbed``: wraps its models and tools. ``names``: names of its runs, if they are to be kept.
    """
    setup = swarm.Setup(
        seed=seed,
        fabric=compile_published(spec),
        rates=faults.NONE,
        runs=tuple(swarm.RunPlan(at_s, tier, bool(work.documents), work.text, seed) for at_s in work.starts_s),
        documents=work.documents,
        processes=work.processes,
        fault_phase_s=LONGEST_S,
        answers_within=0.01,
        verb="reject" if person == "reject" else "approve",
        raises=RAISES if person == "raise" else 0,
        names=names,
        caps=False,
    )
    made = World(setup)
    made.ask, made.serve = disturbed(made, answer_cooperatively, drill_tools(spec, made.agents.run))
    made.run()
    return made


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """End of the undisturbed run."""

    world: World
    why: str
    """Obstacle to a drill; empty if the run completed without a decision."""


@lru_cache(maxsize=16)
def _run_undisturbed(dumped: str, tier: Tier, seed: int) -> Undisturbed:
    return _drive_run(FabricSpec.model_validate_json(dumped), tier, seed, AS_DRAWN)


def _drive_run(spec: FabricSpec, tier: Tier, seed: int, names: WorldNames) -> Undisturbed:
    made = drive(spec, tier, seed=seed, names=names)
    if made.watch.violations:
        broken = made.watch.violations[0]
        return Undisturbed(made, f"{broken.invariant}: {broken.sentence}")
    seen = observe_chain(made)
    if seen.state is RunState.COMPLETED and not seen.links:
        return Undisturbed(made, "")
    reason = first_run(made).reason
    return Undisturbed(
        made,
        f"undisturbed, with scripted agents, the run does not simply complete: {seen}"
        + (f" ({reason})" if reason else ""),
    )


def drive_undisturbed(spec: FabricSpec, tier: Tier, *, seed: int, names: WorldNames = AS_DRAWN) -> Undisturbed:
    """Drive the steady state before a drill: the undisturbed run. ``names``: its name, if it is to be kept."""
    if names.salt:
        return _drive_run(spec, tier, seed, names)
    return _run_undisturbed(_dump(spec), tier, seed)


AFTER_S = 300_000.0
"""Virtual seconds until the disturbance ends and the second run begins: later than any deadline and due time."""
STARTS_S = (0.0, AFTER_S)
"""Start times of a drill's runs, in virtual seconds."""


def until_put_back(disturbing: Disturbing) -> Disturbing:
    """Return a disturbance that ends at ``AFTER_S``."""

    def disturb(world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        over_at = world.clock.now() + int(AFTER_S * US)
        struck_ask, struck_serve = disturbing(world, ask, serve)
        world.later(AFTER_S - 1.0, world.put_back)

        def ask_model(request: ModelRequest) -> Reply:
            return (struck_ask if world.clock.now() < over_at else ask)(request)

        def serve_tool(request: ToolRequest) -> Reply:
            return (struck_serve if world.clock.now() < over_at else serve)(request)

        return ask_model, serve_tool

    return disturb


def run_after(world: World) -> Run | None:
    """Return the run after the disturbance; None if the world did not start one."""
    roots = [run for run in world.watch.runs() if run.family.lineage is None]
    return roots[1] if len(roots) > 1 else None


def journaled_chain(rows: tuple[JournalRow, ...], state: RunState) -> Chain:
    """Return the chain of a journal, across all rows of the table."""
    lines = (line for row in rows for line in split_row(row.seq, row.kind, row.version, row.header))
    events = (from_row(*line) for line in lines if line[1] in LINKED)
    return build_chain(((event.fact.kind, fact_json(event)) for event in events), state)


def first_run(world: World) -> Run:
    """Return the run that was started first, not a child."""
    return world.watch.runs()[0]


def count_decisions(world: World) -> int:
    """Return the number of decisions that its run has journaled."""
    return sum(row.kind == "reaction_decided" for row in world.store.rows(first_run(world).id))


def observe_chain(world: World, run: Run | None = None) -> Chain:
    """Return the chain of a run of a world; by default of its first."""
    run = run or first_run(world)
    return journaled_chain(world.store.rows(run.id), run.state)
