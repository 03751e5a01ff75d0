"""The child process that runs the operator's functions: ``python -m fabric.tools.functions.child``.

1. Frames both ways: four bytes of length, then JSON.
2. In: ``{"path", "args", "key"}``.
3. Out: ``{"result"}``, ``{"returned"}`` (a handoff, an end of the conversation, or a change of its variables),
   ``{"error", "kind", "code"}`` (``kind``: a class name), or ``{"bytes"}`` for a result that is larger than
   ``LARGEST``.

A tool's output goes to standard error. The process ends with its parent, even while a tool is running.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import IO

from fabric.child_processes.frames import receive, send
from fabric.core.graph.state import Finish, Handoff, RoundWrote
from fabric.core.values.units import JSON
from fabric.tools.answers.handovers import as_json
from fabric.tools.answers.outcome import RetryRequested, ToolError
from fabric.tools.functions import callables

LARGEST = 1_100_000
"""Largest result that is sent, in bytes: a little over the storage limit, so that a refusal names the size."""


def main() -> None:
    """Run one call after the other until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked: SimpleQueue[JSON] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, asked), daemon=True).start()
    while True:
        send(out, _answer(asked.get()))


def _listen(stream: IO[bytes], asked: SimpleQueue[JSON]) -> None:
    while (frame := receive(stream)) is not None:
        asked.put(frame)
    os._exit(0)


def _answer(asked: JSON) -> JSON:
    try:
        result = callables.invoke(asked["path"], asked["args"], asked["key"])
    except BaseException as error:  # noqa: BLE001 - Foreign code; SystemExit must end its call, not this process.
        return {
            "error": str(error),
            "kind": type(error).__name__,
            "code": error.code if isinstance(error, ToolError) else "",
            # By its class: other people's exceptions are called so too.
            "retry": {"after_s": error.retry_after_s} if isinstance(error, RetryRequested) else None,
        }
    typed = isinstance(result, Handoff | Finish | RoundWrote)
    try:
        result = as_json(result) if isinstance(result, Handoff | Finish | RoundWrote) else result
        size = len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"its result is no JSON: {error}", "kind": "NoJson"}
    if size > LARGEST:
        return {"bytes": size}
    return {"returned" if typed else "result": result}


if __name__ == "__main__":
    main()
