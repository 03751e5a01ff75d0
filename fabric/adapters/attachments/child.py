"""The child process that reads one file: ``python -m fabric.adapters.attachments.child``. The kernel bounds its memory and its time.

In: the file, on standard input. Out: one line of JSON, ``{"kind", "text", "notes"}`` or ``{"refused", "too_large"}``.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
from typing import Any

from fabric.adapters.attachments.refusal import SHORTER, Reading, Unreadable

MEMORY_BYTES = 512 * 1024 * 1024
"""Of address space; without a file the child has 70 MB."""
CPU_S = 25
"""Seconds of processor time."""
TOO_MUCH = f"needs more memory to be read than there is for one file; {SHORTER}"
LIMITS = (
    (resource.RLIMIT_AS, MEMORY_BYTES),
    (resource.RLIMIT_CPU, CPU_S),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
)


def main() -> None:
    """Reads the file, says what was read, ends."""
    for limit, most in LIMITS:
        resource.setrlimit(limit, (most, most))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable()  # A library's remarks about a file are no news of this process.
    print(json.dumps(answer(sys.stdin.buffer.read())), file=out, flush=True)
    os._exit(0)  # Taking a large document apart takes as long as reading it.


def answer(data: bytes) -> dict[str, Any]:
    """Returns the reading, or the reason why nothing was read."""
    try:
        reading = read(data)
    except Unreadable as refused:
        return {"refused": str(refused), "too_large": refused.too_large}
    except MemoryError:
        return {"refused": TOO_MUCH, "too_large": True}
    except RecursionError:
        return {"refused": f"is nested too deeply to be read; {SHORTER}", "too_large": False}
    text = "".join(char if not "\ud800" <= char <= "\udfff" else "\ufffd" for char in reading.text)
    return {"kind": reading.kind, "text": text.replace("\0", "\ufffd"), "notes": reading.notes}


def read(data: bytes) -> Reading:
    """A PDF or an Office file, whichever its content says. Each reader is loaded only where it is needed."""
    if not data.startswith(b"PK"):
        from fabric.adapters.attachments.pdf import read_pdf

        return read_pdf(data)
    from fabric.adapters.attachments.office import kind_of_zip

    if kind_of_zip(data) == "docx":
        from fabric.adapters.attachments.word import read_word

        return read_word(data)
    from fabric.adapters.attachments.workbook import read_workbook

    return read_workbook(data)


if __name__ == "__main__":
    main()
