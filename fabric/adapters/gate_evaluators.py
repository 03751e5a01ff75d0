"""The evaluators that a fabric's gates ask, compiled from its spec; and what of it does not compile, with its path.

The libraries are loaded where a fabric asks for something that needs them, and not before. Publication refuses what ``gate_problems`` names, so compiling a published revision finds nothing wrong; a revision that does not compile is never run.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.evaluators import NO_EVALUATORS, Evaluators
from fabric.core.fingerprint import fingerprint
from fabric.core.spec import FabricSpec


def gate_problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for everything in ``gates`` that does not compile."""
    from fabric.adapters import invariants
    from fabric.guardrails import compiled

    yield from compiled.problems(spec.gates.guardrails or ())
    yield from invariants.problems(spec.gates.invariants or ())


def gate_evaluators(spec: FabricSpec) -> Evaluators:
    """Compiles the gates. ValueError, with the first problem, for a spec that publication would refuse."""
    gates = spec.gates
    if not gates.guardrails and not gates.invariants:
        return NO_EVALUATORS
    from fabric.adapters import invariants
    from fabric.guardrails import compiled

    for path, sentence in gate_problems(spec):
        raise ValueError(f"{path}: {sentence}")
    digest = fingerprint([gates.model_dump(mode="json"), compiled.SHIPPED_DIGEST])
    return Evaluators(
        guardrails=compiled.scans(gates.guardrails or ()),
        invariants=invariants.holds_by_stage(gates.invariants or ()),
        digest=digest,
    )
