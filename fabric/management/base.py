"""What the commands share: exit codes, refusals as one sentence on standard error, JSON lines, who acts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from fabric.adapters.key_files import KeyUnusable
from fabric.runtime.ports import StoreUnavailable
from fabric.selectors.list_file import ListLines
from fabric.selectors.time_limit import TookTooLong
from fabric.selectors.visible import visible_json
from fabric.services.audit_origin import Origin, coming_from
from fabric.services.errors import Refused
from fabric.services.refusals import refusal_record

JSON = Any

OK, OTHER_END, BAD_INPUT, WAITING, DETACHED = 0, 1, 2, 3, 130
"""Exit codes: done (a run: completed); a run ended otherwise; nothing was done, and why; a run waits for a person; Ctrl-C."""


class FabricCommand(BaseCommand):
    """A command whose ``act`` gives its exit code and whose refusals are sentences, never tracebacks."""

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    def act(self, options: dict[str, Any]) -> int:
        """Does it; the exit code."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs ``act`` and turns what stops it into one sentence on standard error."""
        try:
            with coming_from(Origin("cli")):
                code = self._acted(options)
        except Refused as refused:
            self.tell(*refused.problems)
            code = BAD_INPUT
        except (StoreUnavailable, KeyUnusable) as error:
            self.tell(str(error))
            code = BAD_INPUT
        except DatabaseError as error:
            self.tell(database_sentence(error))
            code = BAD_INPUT
        except OSError as error:
            self.tell(f"{error.filename or 'the data directory'} cannot be used: {error.strerror or error}")
            code = BAD_INPUT
        except KeyboardInterrupt:
            code = DETACHED
        if code:
            sys.exit(code)

    def _acted(self, options: dict[str, Any]) -> int:
        """Does it; a refusal that is about who may do what, or contradicts what stands, is recorded."""
        try:
            return self.act(options)
        except Refused as refused:
            if refused.code in ("forbidden", "conflict"):
                refusal_record(command=type(self).__module__.rpartition(".")[2], refused=refused)
            raise

    def tell(self, *sentences: str) -> None:
        """Says something to the person, beside the result: on standard error, a line each."""
        for sentence in sentences:
            self.stderr.write(sentence, style_func=str)
        self.stderr.flush()

    def put(self, value: JSON) -> None:
        """Writes one line of JSON. Characters that cannot be seen, or would act on a terminal, are escaped in it."""
        self.stdout.write(visible_json(json.dumps(value, ensure_ascii=False)))
        self.stdout.flush()

    def write_list(self, lines_of: Callable[[], ListLines], to: Path | None, *, field: str) -> None:
        """Writes a list to a new file, or to standard output. Refused invalid where the file is there already."""
        if to is None:
            sys.stdout.buffer.writelines(_pages(lines_of()))
            sys.stdout.buffer.flush()
            return
        try:
            file = to.open("xb")
        except FileExistsError:
            raise Refused(f"{to} is there already; name a new file", code="invalid", field=field) from None
        # The export is recorded after its file is open: nothing is exported to a place that cannot be written.
        with file:
            try:
                lines = lines_of()
            except Refused:
                to.unlink()
                raise
            file.writelines(_pages(lines))
        self.tell(f"{lines.count:,} {lines.called} are in {to}.")


def _pages(lines: ListLines) -> Iterator[bytes]:
    try:
        yield from lines.pages()
    except TookTooLong as refusal:
        raise Refused(f"{refusal}; name a shorter time", code="unavailable") from None


_DATABASE_SAYS = (
    (
        ("readonly", "read-only"),
        "is read-only: let this user write it and its directory, or choose another directory with FABRIC_DATA",
    ),
    (
        ("no such table", "no such column", "does not exist"),
        "lacks the tables of this version: run `manage.py up` once, or `manage.py migrate` and `manage.py bootstrap`",
    ),
    (("unable to open",), "cannot be opened: it or its directory is not there, or may not be used by this user"),
    (
        ("disk is full", "No space left", "could not extend file"),
        "has no room left on its disk: make room there and try again; what was written before is kept",
    ),
)
"""What SQLite or PostgreSQL says, by a part of its words, and what that means to who runs a command."""


def database_sentence(error: DatabaseError) -> str:
    """What a database error means to who runs the command."""
    said = " ".join(str(error).split())
    name = str(connection.settings_dict["NAME"])
    where = f"the database file {name}" if connection.vendor == "sqlite" else f"the database {name!r}"
    for words, sentence in _DATABASE_SAYS:
        if any(word in said for word in words):
            return f"{where} {sentence}"
    return f"{where} cannot be used: {said[:300]}"


def providers() -> frozenset[str]:
    """Names of the model providers that this installation has."""
    from fabric.model_ports import provider_names  # Takes seconds to load, which a list of fabrics need not wait for.

    return provider_names()


def read_bytes(path: Path, *, most: int, what: str) -> bytes:
    """A file's bytes. Refused for one that is too large to be looked at, or that cannot be read."""
    try:
        size = path.stat().st_size
        if size > most:
            message = f"{path.name} has {size:,} bytes; at most {most:,} are taken as {what}; make it shorter"
            raise Refused(message, code="too_large", field="file")
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", code="invalid", field="file") from None


def read_text(path: Path, *, most: int, what: str) -> str:
    """A file's UTF-8 text. Refused for what is not."""
    try:
        return read_bytes(path, most=most, what=what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{path.name} is no UTF-8 text (byte {error.start:,} is not); save it as UTF-8"
        raise Refused(message, code="invalid", field="file") from None


def dollars_given(text: str) -> int:
    """An amount of dollars as it was typed, in micro-dollars. Raises Refused."""
    try:
        return int((Decimal(text) * 1_000_000).to_integral_exact())
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise Refused(f"{text[:40]!r} is no amount of dollars; give one such as 12.50", code="invalid") from error
