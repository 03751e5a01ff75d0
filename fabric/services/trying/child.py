"""The child process that makes trials: ``python -m fabric.services.trying.child``. Its memory and its time are bounded by the kernel.

In: ``{"draft", "path", "sample"}``. Out: ``{"verdict", "lines"}``, or ``{"refused": {"message", "code", "field"}}``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fabric.adapters.apart_child import serve
from fabric.services.errors import Refused
from fabric.services.trying.trials import made

JSON = Any


def _answer(frame: JSON) -> JSON:
    try:
        return asdict(made(frame["draft"], frame["path"], frame["sample"]))
    except Refused as refused:
        return {"refused": {"message": refused.message, "code": refused.code, "field": refused.field}}


if __name__ == "__main__":
    serve(_answer)
