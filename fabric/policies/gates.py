"""Compiles the evaluators of a fabric's gates, output schemas and tools' rules. Errors have their paths.

A library is loaded only where a fabric needs it. Publication refuses the errors of ``gate_problems``, so compiling a
published revision finds none; a revision that does not compile never runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.evaluators import NO_EVALUATORS, Evaluators
from fabric.core.values.fingerprint import fingerprint


def gate_problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for every part of ``gates``, output schema and rule of a tool that does not
    compile.
    """
    gates = spec.gates
    if gates.guardrails:
        from fabric.policies.guardrails import compiled

        yield from compiled.problems(gates.guardrails)
    if gates.invariants:
        from fabric.policies.expressions import invariants

        yield from invariants.problems(gates.invariants)
    if gates.oracle:
        from fabric.policies.expressions import invariants

        yield from invariants.oracle_problems(gates.oracle)
    if gates.policies:
        from fabric.policies import cedar as cedar_policies

        yield from cedar_policies.problems(spec)
    if spec.output_schemas:
        from fabric.policies.schemas import evaluators as output_schemas

        yield from output_schemas.problems(spec)
    if spec.asking_rules:
        from fabric.policies.expressions import approvals

        yield from approvals.problems(spec)


def gate_evaluators(spec: FabricSpec) -> Evaluators:
    """Compile them. Raises ValueError, with the first problem, for a spec that publication would refuse."""
    gates = spec.gates
    for path, sentence in gate_problems(spec):
        raise ValueError(f"{path}: {sentence}")
    found: dict[str, Any] = {}
    rules_of_today: list[str] = []
    if gates.guardrails_in_force:
        from fabric.policies.guardrails import compiled

        found["guardrails"] = compiled.scans(gates.guardrails_in_force)
        rules_of_today = [compiled.SHIPPED_DIGEST]
    if spec.screened:
        from fabric.policies.guardrails import compiled
        from fabric.policies.guardrails import compiled as screening

        found["screen"] = screening.screen()
        rules_of_today = [compiled.SHIPPED_DIGEST]
    if gates.invariants:
        from fabric.policies.expressions import invariants

        found["invariants"] = invariants.holds_by_stage(gates.invariants)
    if gates.oracle:
        from fabric.policies.expressions import invariants

        found["oracle"] = invariants.compile_oracle(gates.oracle)
        found["oracle_answers"] = invariants.map_answers(gates.oracle)
    if gates.policies:
        from fabric.policies import cedar as cedar_policies

        found["rules"] = cedar_policies.find_rules(spec)
    schemas: list[dict[str, Any]] = []
    if spec.output_schemas:
        from fabric.policies.schemas import evaluators as output_schemas

        found["data"] = output_schemas.map_fits(spec)
        schemas = [{"data": spec.output_schemas}]
    if any(agent.calls == "planned" for agent in spec.agents):
        from fabric.policies.expressions import invariants as conditions

        found["when"] = conditions.holds
        schemas.append({"when": "cel"})
    if spec.asking_rules:
        from fabric.policies.expressions import approvals

        found["approvals"] = approvals.map_asks(spec)
        schemas.append({"approvals": spec.asking_rules})
    if not found:
        return NO_EVALUATORS
    return Evaluators(**found, digest=fingerprint([gates.model_dump(mode="json"), *rules_of_today, *schemas]))
