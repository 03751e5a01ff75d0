"""The child process that reads one file: ``python -m fabric.adapters.documents.child``. The kernel bounds its memory
and its time.

In: the file, on standard input. Out: one line of JSON, ``{"kind", "text", "notes"}`` or ``{"refused", "too_large"}``.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
from typing import Any

from fabric.adapters.documents.outcome import SHORTER, FileReading, UnreadableFile

MEMORY_BYTES = 512 * 1024 * 1024
"""Limit of address space, in bytes; without a file the child has 70 MB."""
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
    """Read the file, report the reading, end."""
    for limit, most in LIMITS:
        resource.setrlimit(limit, (most, most))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable()  # A library's remarks about a file are no news of this process.
    print(json.dumps(answer(sys.stdin.buffer.read())), file=out, flush=True)
    os._exit(0)  # Taking a large document apart takes as long as reading it.


def answer(data: bytes) -> dict[str, Any]:
    """Return the reading, or the reason of a refusal."""
    try:
        reading = read_document(data)
    except UnreadableFile as refused:
        return {"refused": str(refused), "too_large": refused.too_large}
    except MemoryError:
        return {"refused": TOO_MUCH, "too_large": True}
    except RecursionError:
        return {"refused": f"is nested too deeply to be read; {SHORTER}", "too_large": False}
    text = "".join(char if not "\ud800" <= char <= "\udfff" else "\ufffd" for char in reading.text)
    return {"kind": reading.kind, "text": text.replace("\0", "\ufffd"), "notes": reading.notes}


def read_document(data: bytes) -> FileReading:
    """Return the reading of a PDF or an Office file, by its content. Each reader is loaded only where it is needed."""
    if not data.startswith(b"PK"):
        from fabric.adapters.documents.pdf import read_pdf

        return read_pdf(data)
    from fabric.adapters.documents.containers import kind_of_zip

    if kind_of_zip(data) == "docx":
        from fabric.adapters.documents.word import read_word

        return read_word(data)
    from fabric.adapters.documents.workbook import read_workbook

    return read_workbook(data)


if __name__ == "__main__":
    main()
