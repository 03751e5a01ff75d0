"""Frames between a process and its child: a length, then JSON."""

from __future__ import annotations

import json
import struct
from typing import IO

from fabric.core.values.units import JSON

LENGTH = struct.Struct(">I")


def send(stream: IO[bytes], frame: JSON) -> None:
    """Write one frame. Raises BrokenPipeError when the reader is gone."""
    body = json.dumps(frame).encode()
    stream.write(LENGTH.pack(len(body)) + body)
    stream.flush()


def receive(stream: IO[bytes]) -> JSON | None:
    """Read one frame; None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return json.loads(body) if len(body) == length else None
