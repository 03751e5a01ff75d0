"""`manage.py run FABRIC --input TEXT|FILE` starts a run and follows it; `manage.py run VERB RUN` takes hold of one (``VERBS``)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric import wiring
from fabric.adapters.documents import FILE_BYTES_MAX, FILES_MAX, AttachmentRefused, documents_of
from fabric.core.actor import Actor
from fabric.core.taxonomy import Tier
from fabric.management.base import DETACHED, OK, FabricCommand, read_bytes, read_text
from fabric.management.card import question
from fabric.management.following import Following, silent
from fabric.management.reporting import documents_read, progress, report, summary
from fabric.runtime.origin import excerpt, origin_of
from fabric.runtime.ports import Document
from fabric.selectors.runs import run_get
from fabric.services.control import run_cancel, run_context, run_pause, run_resume, run_say, run_terminate
from fabric.services.errors import Refused
from fabric.services.forks import REQUEST, Edit, run_fork
from fabric.services.runs import TEXT_BYTES_MAX, run_start
from fabric.services.workspaces import owner_actor

PATH_CHARS_MAX = 4_096


class Command(FabricCommand):
    """Starts a run and follows it."""

    help = (
        "Start a run and follow it, or take hold of one: run cancel|terminate|pause|resume|say|context|fork RUN. Uses the engine that is "
        "running on this data, or hosts the run itself. Exit code: 0 completed, 1 ended otherwise, 2 bad input, 3 waits or is paused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The fabric, the request, what is attached."""
        parser.add_argument(
            "fabric",
            metavar="FABRIC|VERB",
            help="name of a published fabric (manage.py fabric list), or a verb before RUN",
        )
        parser.add_argument("run", nargs="?", metavar="RUN", help=f"the run's id, after {', '.join(VERBS)}")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why: kept in the journal; terminate needs it")
        parser.add_argument("--event", type=int, metavar="N", help="fork: the event to go on from")
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
        """Starts the run or takes hold of it, follows it, reports."""
        actor = owner_actor()
        if options["run"] is not None:
            return self._taken_hold_of(actor, options)
        if options["input"] is None and options["fabric"] in VERBS:
            verb = options["fabric"]
            raise Refused(f"the run is missing: manage.py run {verb} RUN", code="invalid", field="run")
        if options["input"] is None:
            raise Refused("say what is asked with --input TEXT or --input FILE", code="invalid", field="input")
        text = _request(options["input"])
        documents = _attached(options["attach"])
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
            self.tell(*(_read_of(one) for one in documents))
        return self._followed(actor, started.run_id, options)

    def _taken_hold_of(self, actor: Actor, options: dict[str, Any]) -> int:
        """Does what the verb says; follows the run where it is hosted here, or a fork."""
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
            return self._followed(actor, run_id, options)
        run = run_get(actor, run_id)
        self.tell(f"{verb} is recorded; the running engine goes on with run {run_id}")
        if options["json"]:
            self.put(summary(actor, run) | {"documents": documents_read(run.id)})
        return OK

    def _followed(self, actor: Actor, run_id: str, options: dict[str, Any]) -> int:
        """Follows the run to its end, or to what it waits for."""
        say = progress(self)
        if say is not None:
            self.tell(f"run {run_id} (Ctrl-C detaches)")
        following = Following(
            actor,
            run_id,
            say=say or silent,
            wait=options["wait"],
            asked=lambda item: self.tell(*question(item)),
        )
        try:
            run = following.to_rest()
        except KeyboardInterrupt:
            return self._detached(actor, following, as_json=options["json"])
        return report(self, actor, run, as_json=options["json"], documents=documents_read(run.id))

    def _detached(self, actor: Actor, following: Following, *, as_json: bool) -> int:
        """Ctrl-C: the run is left as it is, for nothing that was journaled is lost."""
        run = following.look()
        if run.terminal:
            return report(self, actor, run, as_json=as_json, documents=documents_read(run.id))
        if wiring.engine_running():
            self.tell(f"detached: run {run.id} goes on in the engine that is running")
        else:
            self.tell(
                f"detached: run {run.id} is kept ({run.state}) and goes on as soon as an engine runs: manage.py up"
            )
        if as_json:
            self.put(summary(actor, run) | {"documents": documents_read(run.id)})
        return DETACHED


JSON = Any
Ports = dict[str, Any]


def _held(service: Callable[..., bool], *given: str) -> Callable[[Ports, dict[str, Any]], str]:
    """A verb that asks something of the run itself; ``given``: the options that go with it."""

    def act(ports: Ports, options: dict[str, Any]) -> str:
        service(**ports, **{name: options[name] for name in given})
        return str(ports["run_id"])

    return act


def _say(ports: Ports, options: dict[str, Any]) -> str:
    """A message of a person, which whoever speaks next reads."""
    run_say(**ports, text=options["text"] or "")
    return str(ports["run_id"])


def _context(ports: Ports, options: dict[str, Any]) -> str:
    """Context variables that the run's rules see from now on."""
    run_context(**ports, set=dict(map(_variable, options["set"])), delete=options["delete"])
    return str(ports["run_id"])


def _variable(given: str) -> tuple[str, JSON]:
    """``NAME=VALUE``; a value that is no JSON is text."""
    name, equals, value = given.partition("=")
    if not equals:
        raise Refused(f"{given[:60]!r} names no value; write NAME=VALUE", code="invalid", field="set")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _fork(ports: Ports, options: dict[str, Any]) -> str:
    if options["event"] is None:
        raise Refused("say which event to go on from with --event N", code="invalid", field="event")
    edit = None
    if options["edit"] is not None:
        edit = Edit(options["edit"], _json(options["text"]))
    elif options["text"] is not None:
        edit = Edit(REQUEST, options["text"])
    return run_fork(**ports, now=wiring.clock().now, seq=options["event"], edit=edit).run_id


def _json(text: str | None) -> JSON:
    if text is None:
        raise Refused("--edit needs the stage's new output: --input FILE with its JSON", code="invalid", field="input")
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refused(f"--input is no JSON: {error}", code="invalid", field="input") from None


VERBS: Mapping[str, Callable[[Ports, dict[str, Any]], str]] = {
    "cancel": _held(run_cancel, "reason"),
    "terminate": _held(run_terminate, "reason"),
    "pause": _held(run_pause, "reason"),
    "resume": _held(run_resume),
    "say": _say,
    "context": _context,
    "fork": _fork,
}
"""What can be done with a run; each gives the id of the run that goes on."""


def _request(given: str) -> str:
    """The request's text: given itself, or the content of the file that is named."""
    if given == "-":
        return sys.stdin.read(TEXT_BYTES_MAX + 1)
    path = Path(given)
    try:
        is_file = len(given) <= PATH_CHARS_MAX and "\n" not in given and path.is_file()
    except (OSError, ValueError):
        is_file = False  # Too long or too odd for a name: it is the request itself.
    return read_text(path, most=TEXT_BYTES_MAX, what="a request") if is_file else given


def _read_of(document: Document) -> str:
    """Returns the reading of a file, in one line."""
    origin = origin_of(document.origin)
    assert origin is not None  # every file has one
    return f"{document.name}: {'; '.join((origin.words(), *origin.notes))}: {excerpt(document.text)}"


def _attached(paths: list[Path]) -> tuple[Document, ...]:
    if len(paths) > FILES_MAX:
        message = f"{len(paths)} files are attached; at most {FILES_MAX} files are taken; attach fewer"
        raise Refused(message, code="too_large", field="documents")
    files = [(path.name, read_bytes(path, most=FILE_BYTES_MAX, what="a document")) for path in paths]
    try:
        return documents_of(files)
    except AttachmentRefused as error:
        raise Refused(str(error), code=error.code, field="documents") from None
