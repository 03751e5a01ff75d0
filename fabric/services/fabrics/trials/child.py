"""The child process that makes trials: ``python -m fabric.services.fabrics.trials.child``. Its memory and its time
are bounded by the kernel.

In: ``{"draft", "path", "sample"}``. Out: ``{"verdict", "lines"}``, or ``{"refused": {"message", "code", "field"}}``.
"""

from __future__ import annotations

from dataclasses import asdict

from fabric.core.values.units import JSON
from fabric.policies.expressions.frames import serve
from fabric.services.errors import Refused
from fabric.services.fabrics.trials.table import try_check_here


def _answer(frame: JSON) -> JSON:
    try:
        return asdict(try_check_here(frame["draft"], frame["path"], frame["sample"]))
    except Refused as refused:
        return {"refused": {"message": refused.message, "code": refused.code, "field": refused.field}}


if __name__ == "__main__":
    serve(_answer)
