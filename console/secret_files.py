"""Secrets that are given as files: NAME_FILE names the file that holds the value of the variable NAME. Standard library only."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from console.launch.errors import Refused
from console.variable_paths import shown

SUFFIX = "_FILE"
BYTES_MAX = 64 * 1024


def given(name: str, text: str, file: str) -> str:
    """Return the value of a variable, from its text or from the file that NAME_FILE names. Raises Refused for both, and for a file that cannot be read."""
    if text and file:
        raise Refused(f"{name} is set and {name}{SUFFIX} is too: set one of them.")
    return _content(f"{name}{SUFFIX}", Path(file)) if file else text


def open_to_others(names: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Give a sentence for each file that others than its owner may read."""
    for name in names:
        file = environ.get(f"{name}{SUFFIX}", "").strip()
        try:
            mode = Path(file).stat().st_mode if file else 0
        except OSError:
            continue  # Told where it is read.
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            who = "everybody" if mode & stat.S_IROTH else "its group"
            yield f"{name}{SUFFIX} names {file}, which {who} may read: `chmod 600` it, unless that is how your secrets are mounted."


def _content(name: str, path: Path) -> str:
    if not path.is_absolute() or not path.is_file():
        raise Refused(f"{name} is {shown(str(path))}: give the absolute path of a file that is there.")
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Refused(
            f"{name} is {shown(str(path))}, which cannot be read ({error.strerror}): grant it to this user."
        ) from error
    if len(raw) > BYTES_MAX:
        raise Refused(
            f"{name} is {shown(str(path))}, which has more than {BYTES_MAX:,} bytes: put the value alone into it."
        )
    try:
        text = raw.decode().strip()
    except UnicodeDecodeError:
        text = ""
    if not text:
        raise Refused(f"{name} is {shown(str(path))}, which is empty or no text: put the value alone into it.")
    return text
