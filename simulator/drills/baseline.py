"""The undisturbed run of any fabric: what a drill disturbs, and what it is held against (docs/semantics.md, "Failure drills").

Whatever models a fabric asks, scripted agents answer in their place and do the work as well as they can: documents are attached, a plan goes to every
worker, a critic is content. Tools that only read documents or reckon are the real ones; what changes the world is done by the service of the virtual
world, under its keys; any other tool says that it is done. Nothing leaves the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fabric.adapters.tools import builtin_documents as documents
from fabric.adapters.tools import calculator, registry
from fabric.adapters.tools.outcome import ToolError
from fabric.core.flow import RunState
from fabric.core.frozen import replace
from fabric.core.inputs import ToolFinished
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.runtime.call_ports import ModelRequest, ToolRequest
from fabric.runtime.ports import Document
from fabric.wiring import compile_revision
from simulator.drills.expectation import Person
from simulator.drills.observed import first, observed
from simulator.kernel import faults, scripted, swarm
from simulator.kernel.agents import Reply
from simulator.kernel.published import Fabric
from simulator.kernel.services import BOOK, CANCEL, FIND
from simulator.kernel.streams import coming
from simulator.kernel.swarm import AS_DRAWN, Names
from simulator.kernel.world import World

JSON = Any
Ask = Callable[[ModelRequest], Reply]
Serve = Callable[[ToolRequest], Reply]
REQUEST = "What does the report say?"
SECONDS = 0.5
"""How long each answer takes, virtual seconds."""
LONGEST_S = 400_000.0
"""Virtual seconds in which a run must have ended: longer than any deadline and due time."""
RAISES = 100
"""Times the present cap that finance names: far more than the run needs, and so much that its rate is no matter."""
CONTENT = {"score": 1.0}
"""What the scripted agents are told: critics have nothing to say against it."""


def scripted_models(spec: FabricSpec) -> FabricSpec:
    """The fabric whose models are the scripted agents', whatever they are called and whatever their options make of them."""
    models = tuple(model.model_copy(update={"options": CONTENT}) for model in spec.models)
    return spec.model_copy(update={"models": models})


@lru_cache(maxsize=64)
def _published(dumped: str) -> Fabric:
    spec = FabricSpec.model_validate_json(dumped)
    return Fabric("drilled", compile_revision(spec), {tool.name: registry.offers(tool) for tool in spec.asked_tools})


def published(spec: FabricSpec) -> Fabric:
    """The fabric compiled as this installation publishes it: real tool schemas, gates, and prices. ValueError or KeyError where it cannot be."""
    return _published(spec.model_dump_json(by_alias=True))


def cooperative(request: ModelRequest) -> Reply:
    """A model's answer where nothing disturbs it."""
    return coming(request, Reply(SECONDS, scripted.answer(request).result))


def serving(spec: FabricSpec, run: Serve) -> Serve:
    """The tools of a drill. ``run``: the virtual world's own, whose service books, cancels and says what was done."""
    undoing = {tool.compensation: CANCEL for tool in spec.tools if tool.compensation}
    asking = {tool.reconcile: FIND for tool in spec.tools if tool.reconcile}
    of_service = {tool.name: BOOK for tool in spec.tools if tool.effect in CHANGING} | undoing | asking

    def serve(request: ToolRequest) -> Reply:
        if request.memory is not None:
            return run(request)
        if name := of_service.get(request.tool.name):
            return run(replace(request, tool=request.tool.model_copy(update={"name": name})))
        return Reply(SECONDS, _done(request))

    return serve


Disturbing = Callable[[World, Ask, Serve], tuple[Ask, Serve]]
"""Takes a world that has not begun and who would answer in it, and gives who does."""


def undisturbing(_: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
    """Leaves everything as it is."""
    return ask, serve


CHANGING = ("mutating", "irreversible")


def _done(request: ToolRequest) -> ToolFinished:
    ids: dict[str, Any] = {"command_id": request.command_id, "attempt": request.attempt}
    own = OWN.get(registry.builtin_of(request.tool)) if request.tool.kind == "builtin" else None
    if wrong := registry.validator_of(request.tool)(dict(request.args)):
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
"""Built-in tools that leave the process as it is, by name: they do their work in a drill too."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run is asked, and in what a fleet."""

    text: str = REQUEST
    documents: tuple[Document, ...] = swarm.DOCUMENTS
    processes: int = 1
    starts_s: tuple[float, ...] = (0.0,)
    """Virtual seconds at which a run of it is started."""


def drive(
    spec: FabricSpec,
    tier: Tier,
    *,
    seed: int,
    person: Person = "reject",
    disturbed: Disturbing = undisturbing,
    work: Work = Work(),
    names: Names = AS_DRAWN,
) -> World:
    """The world of one run of the fabric, or of several one after the other, to its end. ``disturbed``: who stands in front of its models and tools.

    ``names``: what its runs are called, where they are to be kept.
    """
    setup = swarm.Setup(
        seed=seed,
        fabric=published(spec),
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
    made.ask, made.serve = disturbed(made, cooperative, serving(spec, made.agents.run))
    made.run()
    return made


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """How the run ended that nothing was done to."""

    world: World
    why: str
    """What stood in the way of a drill; empty: nothing, it completed and decided nothing."""


@lru_cache(maxsize=16)
def _undisturbed(dumped: str, tier: Tier, seed: int) -> Undisturbed:
    return _driven(FabricSpec.model_validate_json(dumped), tier, seed, AS_DRAWN)


def _driven(spec: FabricSpec, tier: Tier, seed: int, names: Names) -> Undisturbed:
    made = drive(spec, tier, seed=seed, names=names)
    if made.watch.violations:
        broken = made.watch.violations[0]
        return Undisturbed(made, f"{broken.invariant}: {broken.sentence}")
    seen = observed(made)
    if seen.state is RunState.COMPLETED and not seen.links:
        return Undisturbed(made, "")
    reason = first(made).reason
    return Undisturbed(
        made,
        f"undisturbed, with scripted agents, the run does not simply complete: {seen}"
        + (f" ({reason})" if reason else ""),
    )


def undisturbed(spec: FabricSpec, tier: Tier, *, seed: int, names: Names = AS_DRAWN) -> Undisturbed:
    """The steady state before a drill: the fabric's run with nothing in its way. ``names``: what it is called, where it is to be kept."""
    if names.salt:
        return _driven(spec, tier, seed, names)
    return _undisturbed(spec.model_dump_json(by_alias=True), tier, seed)
