"""The file of a backup: a tar (POSIX.1-2001) of a manifest, the database and, where they were asked for, the keys.

The manifest says versions, and the SHA-256 of every other member. It shows damage; whoever can write the file can write another manifest, so where that
matters sign the file (`deploy/release.py sign`, or any other way).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from console.launch.errors import Refused

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database"
KEYS = "keys/"
MANIFEST_BYTES_MAX = 1_000_000
KEY_BYTES_MAX = 65_536
_BLOCK = 1 << 20
_key_name = re.compile(r"keys/[a-z][a-z0-9_-]{0,40}\.(?:key|ring)")


@dataclass(frozen=True, slots=True)
class Part:
    """One member beside the manifest."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup is of."""

    version: str
    """Of Fabric Flow."""
    made_at: str
    """UTC, ISO 8601."""
    engine: str
    """``sqlite`` or ``postgresql``."""
    server: str
    """The version of SQLite or PostgreSQL that it was taken from."""
    migrations: tuple[str, ...]
    """``app.name``, all that were applied."""
    parts: tuple[Part, ...]
    format: int = FORMAT

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key files in it."""
        return tuple(part.name.removeprefix(KEYS) for part in self.parts if part.name.startswith(KEYS))


def measure(path: Path, name: str) -> Part:
    """What a file is as a member of that name."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Part(name, path.stat().st_size, digest)


def write(target: Path, manifest: Manifest, sources: Mapping[str, Path]) -> None:
    """Write the file, for its owner alone (0600), whole or not at all; nothing is overwritten. Raises Refused, OSError."""
    text = json.dumps(asdict(manifest), indent=1).encode()
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"{target} is there already: name a file that is not, nothing is overwritten.") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                tar.addfile(_header(MANIFEST, len(text)), io.BytesIO(text))
                for part in manifest.parts:
                    with sources[part.name].open("rb") as content:
                        tar.addfile(_header(part.name, part.bytes), content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        target.unlink()
        raise


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o600
    return header


@contextmanager
def opened(source: Path) -> Iterator[tuple[tarfile.TarFile, Manifest]]:
    """A backup that is read, and its manifest. Raises Refused for what is none, or is damaged."""
    try:
        with tarfile.open(source, mode="r:") as tar:
            yield tar, _manifest(tar, source)
    except tarfile.TarError as error:
        raise Refused(f"{source} is no backup, or is cut off ({error}): take another copy of it.") from None


def _manifest(tar: tarfile.TarFile, source: Path) -> Manifest:
    first = tar.next()
    content = tar.extractfile(first) if first and first.isreg() and first.name == MANIFEST else None
    if first is None or content is None or first.size > MANIFEST_BYTES_MAX:
        raise Refused(f"{source} is no backup of Fabric Flow: it does not begin with {MANIFEST}.")
    try:
        said = json.loads(content.read())
        if said["format"] != FORMAT:
            raise Refused(
                f"{source} has the format {said['format']!r}, and this version reads {FORMAT}: use a newer one."
            )
        parts = tuple(Part(str(one["name"]), int(one["bytes"]), str(one["sha256"])) for one in said["parts"])
        migrations = tuple(map(str, said["migrations"]))
        version, made_at, engine, server = (str(said[name]) for name in ("version", "made_at", "engine", "server"))
        return Manifest(version, made_at, engine, server, migrations, parts)
    except (ValueError, KeyError, TypeError):
        raise Refused(f"{source} has a damaged {MANIFEST}: take another copy of it.") from None


def extract(tar: tarfile.TarFile, manifest: Manifest, folder: Path, source: Path) -> dict[str, Path]:
    """Write every part into a folder, held against its digest, and return the files by name. Raises Refused."""
    found: dict[str, Path] = {}
    for number, part in enumerate(manifest.parts):
        header = tar.next()
        if part.name != DATABASE and not (_key_name.fullmatch(part.name) and part.bytes <= KEY_BYTES_MAX):
            raise Refused(f"{source} has a part {part.name[:80]!r} that this version does not know: use a newer one.")
        content = tar.extractfile(header) if header and header.isreg() and header.name == part.name else None
        if header is None or content is None or header.size != part.bytes:
            raise Refused(f"{source} lacks {part.name}, or has another one: take another copy of it.")
        path = folder / f"part-{number}"
        if _copy(content, path) != part.sha256:
            raise Refused(f"{part.name} in {source} is damaged (its SHA-256 is another): take another copy of it.")
        found[part.name] = path
    return found


def _copy(content: IO[bytes], path: Path) -> str:
    digest = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while block := content.read(_BLOCK):
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def key_files(data: Path) -> Sequence[Path]:
    """The key files of a data directory."""
    return sorted(path for path in data.iterdir() if path.is_file() and _key_name.fullmatch(KEYS + path.name))
