"""Reads one attached file: text here, every other format in a child process with bounded memory and time. See design.md 5 "Attachments"."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time

from fabric.adapters.attachments import office, plain
from fabric.adapters.attachments.refusal import FILE_BYTES_MAX, SHORTER, Reading, Unreadable

MODULE = "fabric.adapters.attachments.child"
FILE_S = 30.0
"""Seconds that one file may take."""
REQUEST_S = 50.0
"""Seconds that all files of one request may take: a proxy in front waits 60."""
AT_ONCE = 2
"""Children of one process; a file waits for a free one as long as its own reading may take."""
ZIP = b"PK\x03\x04"
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
HEAD_BYTES = 1_024
"""A PDF may begin with other bytes, so many at most (ISO 32000-1, implementation note 13)."""

_room = threading.BoundedSemaphore(AT_ONCE)
_pdf = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*%PDF-")
_pdf_end = re.compile(rb"startxref\s+\d+\s+%%EOF")


class Busy(Unreadable):
    """Too many other files are being read."""


def read_file(name: str, data: bytes, until: float) -> Reading:
    """Returns the reading of a file. The content shows its kind; the name only shows a text to be a table.

    ``until``: a time of ``time.monotonic``. Unreadable for what is not taken; Busy when no child became free in time.
    """
    if data.startswith(COMPOUND):
        raise office.of_compound(data)
    if not (data.startswith(ZIP) or _is_pdf(data)):
        return plain.read_plain(name, data)
    if len(data) > FILE_BYTES_MAX:
        message = f"has {len(data):,} bytes; at most {FILE_BYTES_MAX:,} are taken; {SHORTER}"
        raise Unreadable(message, too_large=True)
    return _apart(data, min(until, time.monotonic() + FILE_S))


def _is_pdf(data: bytes) -> bool:
    """With other bytes before its header it must end like a PDF too: a text may speak of PDFs."""
    return bool(_pdf.match(data)) or (b"%PDF-" in data[:HEAD_BYTES] and bool(_pdf_end.search(data[-HEAD_BYTES:])))


def _apart(data: bytes, until: float) -> Reading:
    if not _room.acquire(timeout=max(0.0, until - time.monotonic())):
        raise Busy("waits for other files that are being read; attach it again in a few seconds")
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULE],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            timeout=max(0.001, until - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"takes too long to be read; {SHORTER}", too_large=True) from None
    except OSError:
        raise Busy("finds no free process to be read in; attach it again in a few seconds") from None
    finally:
        _room.release()
    return _said(done.stdout, done.returncode)


def _said(out: bytes, code: int) -> Reading:
    try:
        said = json.loads(out)
    except ValueError:
        # The kernel killed it, or a library ended its process: which of them does not help the person who attached the file.
        raise Unreadable(f"ended the program that reads it (exit code {code}); save it anew or {SHORTER}") from None
    if "refused" in said:
        raise Unreadable(said["refused"], too_large=said["too_large"])
    return Reading(said["kind"], said["text"], tuple(said["notes"]))
