"""A reader reads a file, or says in a sentence why it does not."""

from __future__ import annotations

import time

import pytest

from fabric.adapters.documents.attachments import read_file
from fabric.adapters.documents.outcome import FileReading, UnreadableFile


def read(data: bytes, name: str = "file") -> FileReading:
    """Return what stands in a file."""
    return read_file(name, data, time.monotonic() + 60)


def refused(data: bytes, name: str = "file") -> str:
    """Why a file is not taken: one sentence that goes on after its name."""
    with pytest.raises(UnreadableFile) as caught:
        read(data, name)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)  # What is wrong; what to do.
    return str(caught.value)
