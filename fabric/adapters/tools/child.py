"""The child process that runs the functions that the operator named: ``python -m fabric.adapters.tools.child``.

Frames both ways: four bytes of length, then JSON. In: ``{"path", "args", "key"}``. Out: ``{"result"}``, ``{"returned"}`` (a handoff or an end of the conversation that it is called in, or a change of its variables), or ``{"error", "kind", "code"}`` (``kind``: a class name),
or ``{"bytes"}`` for a result that is larger than ``LARGEST``. What a tool prints goes to standard error. The process ends with its parent, even while a
tool is running.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import threading
from queue import SimpleQueue
from typing import IO, Any

from fabric.adapters.tools import callables
from fabric.adapters.tools.handing_over import as_json
from fabric.adapters.tools.outcome import Retry, ToolError
from fabric.core.graph.state import Finish, Handoff, Wrote

JSON = Any
LENGTH = struct.Struct(">I")
LARGEST = 1_100_000
"""Bytes of a result that are sent: a little over what is kept, so that what is refused is refused with its size."""


def main() -> None:
    """Runs one call after the other until the parent goes."""
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
            "retry": {"after_s": error.retry_after_s} if isinstance(error, Retry) else None,
        }
    typed = isinstance(result, Handoff | Finish | Wrote)
    try:
        result = as_json(result) if isinstance(result, Handoff | Finish | Wrote) else result
        size = len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"its result is no JSON: {error}", "kind": "NoJson"}
    if size > LARGEST:
        return {"bytes": size}
    return {"returned" if typed else "result": result}


def send(stream: IO[bytes], frame: JSON) -> None:
    """Writes one frame. BrokenPipeError when nobody reads any more."""
    body = json.dumps(frame).encode()
    stream.write(LENGTH.pack(len(body)) + body)
    stream.flush()


def receive(stream: IO[bytes]) -> JSON | None:
    """Reads one frame; None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return json.loads(body) if len(body) == length else None


if __name__ == "__main__":
    main()
