"""`manage.py run FABRIC --input TEXT|FILE` starts a run and follows it; `manage.py run VERB RUN` controls one
(``VERBS``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.adapters.documents.attachments import FILE_BYTES_MAX, FILES_MAX, AttachmentRefused, list_documents
from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.management.base import DETACHED, OK, FabricCommand, read_bytes, read_text
from fabric.management.output.reviews import review_lines
from fabric.management.output.runs import documents_read, progress, report, summary
from fabric.management.run_follower import Following, silent
from fabric.runtime.ports.batch_parts import excerpt, find_origin
from fabric.runtime.ports.journal import Document
from fabric.selectors.runs.lookup import run_get
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.runs.control import run_cancel, run_context, run_pause, run_resume, run_say, run_terminate
from fabric.services.runs.forks import REQUEST, ForkEdit, run_fork
from fabric.services.runs.start import TEXT_BYTES_MAX, run_start

PATH_CHARS_MAX = 4_096


class Command(FabricCommand):
    """Starts a run and follows it."""

    help = (
        "Start a run and follow it, or take hold of one: run cancel|terminate|pause|resume|say|context|fork RUN. Uses the engine that is "
        "running on this data, or hosts the run itself. Exit code: 0 completed, 1 ended otherwise, 2 bad input, 3 waits or is paused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the fabric, the request and the attachments."""
        parser.add_argument(
            "fabric",
            metavar="FABRIC|VERB",
            help="name of a published fabric (manage.py fabric list), or a verb before RUN",
        )
        parser.add_argument("run", nargs="?", metavar="RUN", help=f"the run's id, after {', '.join(VERBS)}")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why: kept in the journal; terminate needs it")
        parser.add_argument("--event", type=int, metavar="N", help="fork: the event to continue from")
        parser.add_argument(
            "--edit", metavar="STAGE", help="fork: --input is the new output of this stage as JSON, not a request"
        )
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="context: a variable; JSON, else text"
        )
        parser.add_argument("--delete", action="append", default=[], metavar="NAME", help="context: one to delete")
        parser.add_argument(
            "--input",
            metavar="TEXT|FILE",
            help="the request, or a file with it; - reads it from standard input",
        )
        parser.add_argument(
            "--attach",
            action="append",
            default=[],
            type=Path,
            metavar="FILE",
            help=f"a PDF, DOCX, XLSX, CSV or text file; up to {FILES_MAX} times",
        )
        parser.add_argument(
            "--tier", default=None, metavar="TIER", help=f"one of {', '.join(Tier)} (default: the fabric's)"
        )
        parser.add_argument("--wait", action="store_true", help="stay while the run waits for a person")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Start or control the run, follow it, report."""
        actor = owner_actor()
        if options["run"] is not None:
            return self._taken_hold_of(actor, options)
        if options["input"] is None and options["fabric"] in VERBS:
            verb = options["fabric"]
            raise Refused(f"the run is missing: manage.py run {verb} RUN", code="invalid", field="run")
        if options["input"] is None:
            raise Refused("give the request with --input TEXT or --input FILE", code="invalid", field="input")
        text = _request(options["input"])
        documents = _read_attachments(options["attach"])
        started = run_start(
            store=wiring.store(),
            nudge=wiring.nudge(),
            now=wiring.clock().now,
            actor=actor,
            fabric=options["fabric"],
            text=text,
            documents=documents,
            tier=options["tier"],
        )
        if not options["json"]:
            self.tell(*(_describe_reading(one) for one in documents))
        return self._follow_run(actor, started.run_id, options)

    def _taken_hold_of(self, actor: Actor, options: dict[str, Any]) -> int:
        """Carry out the verb; follow the run where it is hosted here, or a fork."""
        verb, given = options["fabric"], options["input"]
        if verb not in VERBS:
            message = f"{verb[:40]!r} is nothing that can be done with a run; possible are: {', '.join(VERBS)}"
            raise Refused(message, code="invalid", field="verb")
        elsewhere = wiring.engine_running()
        run_id = VERBS[verb](
            {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor, "run_id": options["run"]},
            options | {"text": None if given is None else _request(given)},
        )
        if not elsewhere or verb == "fork":
            return self._follow_run(actor, run_id, options)
        run = run_get(actor, run_id)
        self.tell(f"{verb} is recorded; the running engine continues run {run_id}")
        if options["json"]:
            self.put(summary(actor, run) | {"documents": documents_read(run.id)})
        return OK

    def _follow_run(self, actor: Actor, run_id: str, options: dict[str, Any]) -> int:
        """Follow the run to its end, or to its wait for a person."""
        say = progress(self)
        if say is not None:
            self.tell(f"run {run_id} (Ctrl-C detaches)")
        following = Following(
            actor,
            run_id,
            say=say or silent,
            wait=options["wait"],
            asked=lambda item: self.tell(*review_lines(item)),
        )
        try:
            run = following.to_rest()
        except KeyboardInterrupt:
            return self._detach(actor, following, as_json=options["json"])
        return report(self, actor, run, as_json=options["json"], documents=documents_read(run.id))

    def _detach(self, actor: Actor, following: Following, *, as_json: bool) -> int:
        """Handle Ctrl-C: the run goes on elsewhere, and nothing journaled is lost."""
        run = following.look()
        if run.terminal:
            return report(self, actor, run, as_json=as_json, documents=documents_read(run.id))
        if wiring.engine_running():
            self.tell(f"detached: run {run.id} continues in the running engine")
        else:
            self.tell(f"detached: run {run.id} is stored ({run.state}) and continues when an engine runs: manage.py up")
        if as_json:
            self.put(summary(actor, run) | {"documents": documents_read(run.id)})
        return DETACHED


Ports = dict[str, Any]


def _control_verb(service: Callable[..., bool], *given: str) -> Callable[[Ports, dict[str, Any]], str]:
    """Return the function of a verb that controls the run itself; ``given``: its options."""

    def act(ports: Ports, options: dict[str, Any]) -> str:
        service(**ports, **{name: options[name] for name in given})
        return str(ports["run_id"])

    return act


def _say(ports: Ports, options: dict[str, Any]) -> str:
    """Send a person's message, which the next speaker reads."""
    run_say(**ports, text=options["text"] or "")
    return str(ports["run_id"])


def _context(ports: Ports, options: dict[str, Any]) -> str:
    """Write context variables, which the run's rules see from now on."""
    run_context(**ports, set=dict(map(_variable, options["set"])), delete=options["delete"])
    return str(ports["run_id"])


def _variable(given: str) -> tuple[str, JSON]:
    """Return ``NAME=VALUE``; a value that is no JSON is text."""
    name, equals, value = given.partition("=")
    if not equals:
        raise Refused(f"{given[:60]!r} names no value; write NAME=VALUE", code="invalid", field="set")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _fork(ports: Ports, options: dict[str, Any]) -> str:
    if options["event"] is None:
        raise Refused("give the event to continue from with --event N", code="invalid", field="event")
    edit = None
    if options["edit"] is not None:
        edit = ForkEdit(options["edit"], _json(options["text"]))
    elif options["text"] is not None:
        edit = ForkEdit(REQUEST, options["text"])
    return run_fork(**ports, now=wiring.clock().now, seq=options["event"], edit=edit).run_id


def _json(text: str | None) -> JSON:
    if text is None:
        raise Refused("--edit needs the stage's new output: --input FILE with its JSON", code="invalid", field="input")
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refused(f"--input is no JSON: {error}", code="invalid", field="input") from None


VERBS: Mapping[str, Callable[[Ports, dict[str, Any]], str]] = {
    "cancel": _control_verb(run_cancel, "reason"),
    "terminate": _control_verb(run_terminate, "reason"),
    "pause": _control_verb(run_pause, "reason"),
    "resume": _control_verb(run_resume),
    "say": _say,
    "context": _context,
    "fork": _fork,
}
"""Actions on a run; each returns the id of the run that goes on."""


def _request(given: str) -> str:
    """Return the request's text: the argument itself, or the content of the named file."""
    if given == "-":
        return sys.stdin.read(TEXT_BYTES_MAX + 1)
    path = Path(given)
    try:
        is_file = len(given) <= PATH_CHARS_MAX and "\n" not in given and path.is_file()
    except (OSError, ValueError):
        is_file = False  # Too long or too odd for a name: it is the request itself.
    return read_text(path, most=TEXT_BYTES_MAX, what="a request") if is_file else given


def _describe_reading(document: Document) -> str:
    """Return the reading of a file, in one line."""
    origin = find_origin(document.origin)
    assert origin is not None  # every file has one
    return f"{document.name}: {'; '.join((origin.words(), *origin.notes))}: {excerpt(document.text)}"


def _read_attachments(paths: list[Path]) -> tuple[Document, ...]:
    if len(paths) > FILES_MAX:
        message = f"{len(paths)} files are attached; at most {FILES_MAX} files are taken; attach fewer"
        raise Refused(message, code="too_large", field="documents")
    files = [(path.name, read_bytes(path, most=FILE_BYTES_MAX, what="a document")) for path in paths]
    try:
        return list_documents(files)
    except AttachmentRefused as error:
        raise Refused(str(error), code=error.code, field="documents") from None
