"""Makes and reads backups: the file of a backup, and copies of the database of an installation in use.

The manifest has the versions, and the SHA-256 of every other member. It reveals damage, but not forgery: an attacker
can write another manifest. Where that matters sign the file (`deploy/release.py sign`, or any other way). A copy of the
database is loaded into an empty one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from psycopg.conninfo import make_conninfo

from console.launch.processes.errors import StartRefused

_LIBPQ = ("host", "port", "user", "dbname", "service", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout")


def migrations() -> tuple[str, ...]:
    """Return the migrations applied to this database, as ``app.name``."""
    return tuple(sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations()))


def server() -> str:
    """Return the version of the database's server or library."""
    if connection.vendor == "sqlite":
        return sqlite3.sqlite_version
    return ".".join(map(str, connection.get_database_version()))


def is_empty() -> bool:
    """Return True if the database has no tables, or its file does not exist."""
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return True
    return not connection.introspection.table_names()


def dump(target: Path) -> None:
    """Write a consistent copy of the database while it is in use. Raises Refused, OSError, sqlite3.Error."""
    _DUMPS[connection.vendor](target)


def load(source: Path) -> None:
    """Load a copy into this empty database, as a whole or not at all. Raises Refused, OSError."""
    _LOADS[connection.vendor](source)


def _dump_sqlite(target: Path) -> None:
    # SQLite's online backup (sqlite.org/backup.html). The copy is one file, without a write-ahead log.
    with (
        closing(sqlite3.connect(f"file:{connection.settings_dict['NAME']}?mode=ro", uri=True)) as origin,
        closing(sqlite3.connect(target)) as copy,
    ):
        # In one step, because SQLite begins anew after a foreign write. A write-ahead log lets writers go on.
        origin.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode=DELETE")


def _load_sqlite(source: Path) -> None:
    try:
        with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as copy:
            (said,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise StartRefused(f"The database in the backup is damaged ({said}): take another copy of it.")
    connection.close()
    source.replace(connection.settings_dict["NAME"])


def _dump_postgresql(target: Path) -> None:
    _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")


def _load_postgresql(source: Path) -> None:
    connection.close()
    _run("pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction", str(source))


def _run(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's own programs on this database. The environment passes the password, never the
    arguments.
    """
    params: Mapping[str, Any] = connection.get_connection_params()
    address = make_conninfo(**{name: params[name] for name in _LIBPQ if params.get(name)})
    environ = os.environ | ({"PGPASSWORD": str(params["password"])} if params.get("password") else {})
    try:
        done = subprocess.run(
            [program, f"--dbname={address}", *arguments], env=environ, check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise StartRefused(
            f"There is no {program} here: install PostgreSQL's client, not older than the server."
        ) from None
    if done.returncode:
        said = " ".join((done.stderr.strip().splitlines() or ["nothing"])[0].split())[:300]
        raise StartRefused(f"{program} ended with exit code {done.returncode}: {said.rstrip('.')}.")


_DUMPS: Mapping[str, Callable[[Path], None]] = {"sqlite": _dump_sqlite, "postgresql": _dump_postgresql}
_LOADS: Mapping[str, Callable[[Path], None]] = {"sqlite": _load_sqlite, "postgresql": _load_postgresql}

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
    """One member besides the manifest."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of a backup's contents."""

    version: str
    """Version of Fabric Flow."""
    made_at: str
    """Instant of the backup, UTC, ISO 8601."""
    engine: str
    """``sqlite`` or ``postgresql``."""
    server: str
    """The version of SQLite or PostgreSQL that it was taken from."""
    migrations: tuple[str, ...]
    """Applied migrations, as ``app.name``."""
    parts: tuple[Part, ...]
    format: int = FORMAT

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the key files in it."""
        return tuple(part.name.removeprefix(KEYS) for part in self.parts if part.name.startswith(KEYS))


def measure(path: Path, name: str) -> Part:
    """Return the member that describes a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Part(name, path.stat().st_size, digest)


def write(target: Path, manifest: Manifest, sources: Mapping[str, Path]) -> None:
    """Write the file for its owner alone (0600), as a whole or not at all, and never over another file.

    Raises Refused, OSError.
    """
    text = json.dumps(asdict(manifest), indent=1).encode()
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise StartRefused(f"{target} is there already: name a file that is not, nothing is overwritten.") from None
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
def open_backup(source: Path) -> Iterator[tuple[tarfile.TarFile, Manifest]]:
    """Yield an opened backup and its manifest. Raises Refused for a file that is no backup, or is damaged."""
    try:
        with tarfile.open(source, mode="r:") as tar:
            yield tar, _manifest(tar, source)
    except tarfile.TarError as error:
        raise StartRefused(f"{source} is no backup, or is cut off ({error}): take another copy of it.") from None


def _manifest(tar: tarfile.TarFile, source: Path) -> Manifest:
    first = tar.next()
    content = tar.extractfile(first) if first and first.isreg() and first.name == MANIFEST else None
    if first is None or content is None or first.size > MANIFEST_BYTES_MAX:
        raise StartRefused(f"{source} is no backup of Fabric Flow: it does not begin with {MANIFEST}.")
    try:
        said = json.loads(content.read())
        if said["format"] != FORMAT:
            raise StartRefused(
                f"{source} has the format {said['format']!r}, and this version reads {FORMAT}: use a newer one."
            )
        parts = tuple(Part(str(one["name"]), int(one["bytes"]), str(one["sha256"])) for one in said["parts"])
        migrations = tuple(map(str, said["migrations"]))
        version, made_at, engine, server = (str(said[name]) for name in ("version", "made_at", "engine", "server"))
        return Manifest(version, made_at, engine, server, migrations, parts)
    except (ValueError, KeyError, TypeError):
        raise StartRefused(f"{source} has a damaged {MANIFEST}: take another copy of it.") from None


def extract(tar: tarfile.TarFile, manifest: Manifest, folder: Path, source: Path) -> dict[str, Path]:
    """Extract every part into a folder, check its digest, and return the files by name. Raises Refused."""
    found: dict[str, Path] = {}
    for number, part in enumerate(manifest.parts):
        header = tar.next()
        if part.name != DATABASE and not (_key_name.fullmatch(part.name) and part.bytes <= KEY_BYTES_MAX):
            raise StartRefused(
                f"{source} has a part {part.name[:80]!r} that this version does not know: use a newer one."
            )
        content = tar.extractfile(header) if header and header.isreg() and header.name == part.name else None
        if header is None or content is None or header.size != part.bytes:
            raise StartRefused(f"{source} lacks {part.name}, or has another one: take another copy of it.")
        path = folder / f"part-{number}"
        if _copy(content, path) != part.sha256:
            raise StartRefused(f"{part.name} in {source} is damaged (its SHA-256 is another): take another copy of it.")
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
    """Return the key files of a data directory."""
    return sorted(path for path in data.iterdir() if path.is_file() and _key_name.fullmatch(KEYS + path.name))
