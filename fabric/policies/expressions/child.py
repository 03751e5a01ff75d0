"""The child process that evaluates expressions: ``python -m fabric.policies.expressions.child``. In:
``{"expression", "about"}``. Out: ``{"holds", "failed", "error"}``.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

from fabric.core.values.units import JSON
from fabric.policies.expressions.evaluation import evaluated_here, library
from fabric.policies.expressions.frames import serve


@lru_cache(maxsize=256)
def _program(expression: str) -> JSON:
    return library().compile(expression)


def _answer(frame: JSON) -> JSON:
    expression = frame["expression"]
    return asdict(evaluated_here(_program(expression), expression, frame["about"]))


if __name__ == "__main__":
    serve(_answer)
