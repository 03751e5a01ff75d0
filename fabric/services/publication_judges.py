"""Who may judge what at publication: never its author, and an oracle asks nothing that changes the world (semantics.md 1, 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.adapters.tools.outbound import Gate
from fabric.core import templates
from fabric.core.gates import OracleCheck
from fabric.core.spec import FabricSpec


def judge_problems(spec: FabricSpec, gate: Gate) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for every judge that is an author of what it would judge, and for every check that may not be asked as it stands."""
    topology = spec.topology
    yield from _author("topology.critic", topology.critic, _of_the_aggregate(spec), "score")
    planners = {topology.planner: "is the planner", topology.handover: "may plan where the run is handed over"}
    yield from _author("topology.plan_critic", topology.plan_critic, planners, "judge")
    writers = _of_the_aggregate(spec) | _of_the_outcome(spec)
    critic = spec.gates.grounding_critic
    yield from _author("gates.grounding_critic", critic, writers, "judge")
    if critic is not None and spec.gates.grounding is None:
        sentence = "stands on top of a grounding level, and there is none; give gates.grounding"
        yield "gates.grounding_critic", f"agent {critic!r} {sentence}"
    for n, check in enumerate(spec.gates.oracle or ()):
        path = f"gates.oracle.{n}"
        yield from _author(f"{path}.critic", check.critic, writers, "judge")
        yield from _askable(spec, gate, path, check)


def _of_the_aggregate(spec: FabricSpec) -> dict[str | None, str]:
    topology = spec.topology
    if topology.aggregator is not None:
        return {topology.aggregator: "is the aggregator"}
    return dict.fromkeys(topology.workers, "is one of the workers, whose summaries the engine joins")


def _of_the_outcome(spec: FabricSpec) -> dict[str | None, str]:
    return {} if spec.topology.finalizer is None else {spec.topology.finalizer: "is the finalizer"}


def _author(field: str, name: str | None, wrote: dict[str | None, str], does: str) -> Iterator[tuple[str, str]]:
    if name is not None and name in wrote:
        yield field, f"agent {name!r} {wrote[name]}, and would {does} what it wrote itself; name another agent"


def _askable(spec: FabricSpec, gate: Gate, path: str, check: OracleCheck) -> Iterator[tuple[str, str]]:
    if check.tool is not None and (effect := spec.tool(check.tool).effect) != "read_only":
        sentence = f"tool {check.tool!r} is {effect}; an oracle asks and changes nothing, so name a read_only tool"
        yield f"{path}.tool", sentence
    for problem in _once(templates.problems_in(check.arguments or {})):
        yield f"{path}.arguments", problem
    if check.http is None:
        return
    url = check.http.url
    for problem in _once(templates.problems(url)):
        yield f"{path}.http.url", problem
    if not templates.host_of(url):
        yield (
            f"{path}.http.url",
            "is no address with a fixed host; write https://host/path, and places behind the host alone",
        )
    elif problem := gate.problem(templates.PLACE.sub("x", url)):
        yield f"{path}.http.url", problem


def _once(found: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(found))
