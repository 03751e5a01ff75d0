"""The evaluators that a fabric's gates, the output schemas of its agents and the rules of its tools ask, compiled from its spec; and what of it does not compile, with its path.

The libraries are loaded where a fabric asks for something that needs them, and not before. Publication refuses what ``gate_problems`` names, so compiling a published revision finds nothing wrong; a revision that does not compile is never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.evaluators import NO_EVALUATORS, Evaluators
from fabric.core.fingerprint import fingerprint
from fabric.core.spec import FabricSpec


def gate_problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for everything in ``gates``, and for every output schema and rule of a tool, that does not compile."""
    gates = spec.gates
    if gates.guardrails:
        from fabric.guardrails import compiled

        yield from compiled.problems(gates.guardrails)
    if gates.invariants:
        from fabric.adapters import invariants

        yield from invariants.problems(gates.invariants)
    if gates.oracle:
        from fabric.adapters import invariants

        yield from invariants.oracle_problems(gates.oracle)
    if gates.policies:
        from fabric.adapters import cedar_policies

        yield from cedar_policies.problems(spec)
    if spec.typed:
        from fabric.adapters import output_schemas

        yield from output_schemas.problems(spec)
    if spec.asking:
        from fabric.adapters import approvals

        yield from approvals.problems(spec)


def gate_evaluators(spec: FabricSpec) -> Evaluators:
    """Compiles them. ValueError, with the first problem, for a spec that publication would refuse."""
    gates = spec.gates
    for path, sentence in gate_problems(spec):
        raise ValueError(f"{path}: {sentence}")
    found: dict[str, Any] = {}
    rules_of_today: list[str] = []
    if gates.guarded:
        from fabric.guardrails import compiled

        found["guardrails"] = compiled.scans(gates.guarded)
        rules_of_today = [compiled.SHIPPED_DIGEST]
    if spec.screened:
        from fabric.guardrails import compiled, screening

        found["screen"] = screening.screen()
        rules_of_today = [compiled.SHIPPED_DIGEST]
    if gates.invariants:
        from fabric.adapters import invariants

        found["invariants"] = invariants.holds_by_stage(gates.invariants)
    if gates.oracle:
        from fabric.adapters import invariants

        found["oracle"] = invariants.oracle_of(gates.oracle)
        found["oracle_answers"] = invariants.answers_of(gates.oracle)
    if gates.policies:
        from fabric.adapters import cedar_policies

        found["rules"] = cedar_policies.rules_of(spec)
    schemas: list[dict[str, Any]] = []
    if spec.typed:
        from fabric.adapters import output_schemas

        found["data"] = output_schemas.fits_of(spec)
        schemas = [{"data": spec.typed}]
    if any(agent.calls == "planned" for agent in spec.agents):
        from fabric.adapters import conditions

        found["when"] = conditions.holds
        schemas.append({"when": "cel"})
    if spec.asking:
        from fabric.adapters import approvals

        found["approvals"] = approvals.asks_of(spec)
        schemas.append({"approvals": spec.asking})
    if not found:
        return NO_EVALUATORS
    return Evaluators(**found, digest=fingerprint([gates.model_dump(mode="json"), *rules_of_today, *schemas]))
