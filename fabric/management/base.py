"""Shared parts of the commands: exit codes, refusals as one sentence on standard error, JSON lines, and the actor.

A table has the acts that each command of this machine writes into the audit stream; a test shows that it is total.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from fabric.core.audit.lines import Act
from fabric.core.values.units import JSON
from fabric.management.nouns import carry_out
from fabric.program.name import find_version, program
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.secrets.key_ring import KeyUnusable
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.list_file import ListLines
from fabric.selectors.visible_text import visible_json
from fabric.services.acts import ActOrigin, coming_from
from fabric.services.audit.folds import refusal_record
from fabric.services.errors import Refused

OK, OTHER_END, BAD_INPUT, WAITING, DETACHED = 0, 1, 2, 3, 130
"""Exit codes: done (a run: completed); a run ended otherwise; bad input; a run waits for a person; Ctrl-C."""

DJANGO_OPTIONS = frozenset(
    (
        "--version",
        "-v",
        "--verbosity",
        "--settings",
        "--pythonpath",
        "--traceback",
        "--no-color",
        "--force-color",
        "--skip-checks",
    )
)
"""Options that Django gives each command. The help leaves them out."""


class FabricCommand(BaseCommand):
    """A command whose ``act`` returns its exit code and whose refusals are sentences, never tracebacks."""

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.
    suppressed_base_arguments = set(DJANGO_OPTIONS)  # noqa: RUF012 - The same.

    def get_version(self) -> str:
        """Return the version of the product."""
        return find_version()

    def act(self, options: dict[str, Any]) -> int:
        """Do the command's work, and return the exit code."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        """Run ``act`` and turn its errors into one sentence on standard error."""
        if carry_out(self, options):
            return
        try:
            with coming_from(ActOrigin("cli")):
                code = self._run_act(options)
        except Refused as refused:
            self.tell(*refused.problems)
            code = BAD_INPUT
        except (StoreUnavailable, KeyUnusable) as error:
            self.tell(str(error))
            code = BAD_INPUT
        except DatabaseError as error:
            self.tell(database_sentence(error))
            code = BAD_INPUT
        except BrokenPipeError:
            raise  # The reader of the output has gone: the launcher ends the command silently.
        except OSError as error:
            self.tell(f"{error.filename or 'the data directory'} cannot be used: {error.strerror or error}")
            code = BAD_INPUT
        except KeyboardInterrupt:
            code = DETACHED
        if code:
            sys.exit(code)

    def _run_act(self, options: dict[str, Any]) -> int:
        """Run ``act``, and record a refusal about rights, or about a conflict with the present state."""
        try:
            return self.act(options)
        except Refused as refused:
            if refused.code in ("forbidden", "conflict"):
                refusal_record(command=type(self).__module__.rpartition(".")[2], refused=refused)
            raise

    def tell(self, *sentences: str) -> None:
        """Write sentences for the person, besides the result: on standard error, a line each."""
        for sentence in sentences:
            self.stderr.write(sentence, style_func=str)
        self.stderr.flush()

    def put(self, value: JSON) -> None:
        """Write one line of JSON. Invisible characters and those that act on a terminal are escaped in it."""
        self.stdout.write(visible_json(json.dumps(value, ensure_ascii=False)))
        self.stdout.flush()

    def write_list(self, lines_of: Callable[[], ListLines], to: Path | None, *, field: str) -> None:
        """Write a list to a new file, or to standard output. Raises Refused invalid for an existing file."""
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
        f"lacks the tables of this version: run `{program()} up` once, or `{program()} django migrate` and `{program()} bootstrap`",
    ),
    (("unable to open",), "cannot be opened: it or its directory is not there, or may not be used by this user"),
    (
        ("disk is full", "No space left", "could not extend file"),
        "has no room left on its disk: make room there and try again; what was written before is kept",
    ),
)
"""Meaning of SQLite's and PostgreSQL's errors for the user of a command, by a part of their words."""


def database_sentence(error: DatabaseError) -> str:
    """Return the meaning of a database error for the user of a command."""
    said = " ".join(str(error).split())
    name = str(connection.settings_dict["NAME"])
    where = f"the database file {name}" if connection.vendor == "sqlite" else f"the database {name!r}"
    for words, sentence in _DATABASE_SAYS:
        if any(word in said for word in words):
            return f"{where} {sentence}"
    return f"{where} cannot be used: {said[:300]}"


def providers() -> frozenset[str]:
    """Return the names of this installation's model providers."""
    from fabric.composition.models import (
        provider_names,  # Takes seconds to load, which a list of fabrics need not wait for.
    )

    return provider_names()


def read_bytes(path: Path, *, most: int, what: str) -> bytes:
    """Return a file's bytes. Raises Refused for one that is too large, or that cannot be read."""
    try:
        size = path.stat().st_size
        if size > most:
            message = f"{path.name} has {size:,} bytes; at most {most:,} are taken as {what}; make it shorter"
            raise Refused(message, code="too_large", field="file")
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", code="invalid", field="file") from None


def read_text(path: Path, *, most: int, what: str) -> str:
    """Return a file's UTF-8 text. Raises Refused for other content."""
    try:
        return read_bytes(path, most=most, what=what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{path.name} is no UTF-8 text (byte {error.start:,} is not); save it as UTF-8"
        raise Refused(message, code="invalid", field="file") from None


def dollars_given(text: str) -> int:
    """Return a typed amount of dollars in micro-dollars. Raises Refused."""
    try:
        return int((Decimal(text) * 1_000_000).to_integral_exact())
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise Refused(f"{text[:40]!r} is no amount of dollars; give one such as 12.50", code="invalid") from error


LOOKS = "it looks, and changes nothing"
MEASURES = "it measures or plays in an installation of its own"
NAMES = "its verbs are commands of their own, or it lists"
MACHINE = "it sets up the machine; what it makes in a workspace tells of itself"

COMMAND_ACTS: Mapping[str, tuple[Act, ...] | str] = {
    "audit": (Act.AUDIT_EXPORTED, Act.HOLD_PLACED, Act.HOLD_LIFTED, Act.AUDIT_RULE_SET, Act.AUDIT_CUT),
    "bootstrap": (Act.LOGIN_LINK_CREATED, Act.WORKSPACE_CREATED, Act.USER_CREATED),
    "admin": NAMES,
    "breaker": (Act.BREAKER_OPENED, Act.BREAKER_RESET),
    "budget": (Act.BUDGET_SET,),
    "decide": (Act.DECISION_SENT, Act.DECISION_TAKEN_BACK, Act.DECISION_HASTENED),
    "evaluate_detectors": LOOKS,
    "explain": LOOKS,
    "export_run": (Act.RUN_EXPORTED,),
    "fabric": (
        Act.FABRIC_PUBLISHED, Act.FABRIC_REVERTED, Act.CHANGE_REQUESTED, Act.PUBLICATION_SCHEDULED, Act.CHANGE_REJECTED, Act.CHANGE_WITHDRAWN, Act.DRAFT_DISCARDED,
        Act.NEW_RUNS_STOPPED, Act.NEW_RUNS_ALLOWED,
    ),
    "graph": LOOKS,
    "member": (
        Act.INVITATION_CREATED, Act.INVITATION_REVOKED, Act.MEMBER_ROLES_SET, Act.MEMBER_REMOVED, Act.SERVICE_ACCOUNT_CREATED,
        Act.LOGIN_LINK_CREATED, Act.FACTOR_REMOVED, Act.SIGN_INS_ENDED, Act.MEMBER_READMITTED,
    ),
    "memory": (Act.MEMORY_WRITTEN, Act.MEMORY_DELETED, Act.MEMORY_EXPORTED),
    "model": (Act.MODEL_KEY_STORED, Act.MODEL_KEY_DELETED, Act.MODEL_TESTED),
    "notification": (Act.NOTIFICATION_RESENT, Act.CHAT_ROUTE_ADDED, Act.CHAT_ROUTE_REMOVED),
    "policy": (Act.POLICY_SET,),
    "rekey": (Act.SECRETS_SEALED_ANEW,),
    "rebuild_projections": (Act.PROJECTION_REBUILT,),
    "replay_run": LOOKS,
    "retention": (Act.RETENTION_SET, Act.RUN_ERASED, Act.MEMORY_PRUNED),
    "review": (
        Act.REVIEW_CLAIMED, Act.REVIEW_TAKEN_OVER, Act.REVIEW_RELEASED, Act.REVIEW_REASSIGNED, Act.REVIEW_ASSIGNED_TO_ROLE,
        Act.REVIEW_COMMENTED, Act.REVIEW_SNOOZED, Act.REVIEW_SNOOZE_ENDED, Act.FOLLOW_UP_CLOSED,
    ),
    "review_history": (Act.DECISIONS_EXPORTED,),
    "run": (
        Act.RUN_STARTED, Act.RUN_FORKED, Act.CANCEL_SENT, Act.TERMINATE_SENT, Act.PAUSE_SENT, Act.RESUME_SENT, Act.MESSAGE_SENT,
        Act.CONTEXT_SENT, Act.RUN_LABELLED, Act.RUN_JOB_BEGUN, Act.RUN_JOB_ENDED,
    ),
    "token": (Act.TOKEN_CREATED, Act.TOKEN_REVOKED),
    "verify_audit": LOOKS,
    "prepare": MACHINE,
    "backup": (Act.BACKUP_TAKEN,),
    "restore": (Act.BACKUP_RESTORED, Act.ACCESS_REVOKED),
    "revoke_access": (Act.ACCESS_REVOKED,),
    "doctor": LOOKS,
    "bench": MEASURES,
    "booking": MEASURES,
    "chaos": MEASURES,
    "scoreboard": MEASURES,
    "simulate": MEASURES,
    "simulate_endpoint": MEASURES,
    "complete_words": LOOKS,
    "dev": NAMES,
    "drill": NAMES,
    "drill_run": (Act.DRILLS_ASKED, Act.DRILLS_STOPPED, Act.FABRIC_WITHDRAWN),
    "drill_batch": "a worker plays a drill; the request for it is recorded",
    "drill_stop": (Act.DRILL_STOP_PULLED, Act.DRILL_STOP_RELEASED),
    "scenario": (Act.SCENARIO_SAVED, Act.SCENARIO_CHANGED, Act.SCENARIO_DELETED, Act.DRILLS_ASKED),
}  # fmt: skip
"""Acts by the command's name."""
