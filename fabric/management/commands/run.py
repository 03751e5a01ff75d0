"""`manage.py run FABRIC --input TEXT|FILE`: starts a run and follows it to its end, or to the person it waits for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric import wiring
from fabric.adapters.documents import BYTES_MAX, FILES_MAX, AttachmentRefused, documents_of
from fabric.core.actor import Actor
from fabric.core.taxonomy import Tier
from fabric.management.base import DETACHED, FabricCommand, read_bytes, read_text
from fabric.management.following import Following, silent
from fabric.management.reporting import progress, question, report, summary
from fabric.runtime.ports import Document
from fabric.services.errors import Refused
from fabric.services.runs import TEXT_BYTES_MAX, run_start
from fabric.services.workspaces import owner_actor

PATH_CHARS_MAX = 4_096


class Command(FabricCommand):
    """Starts a run and follows it."""

    help = (
        "Start a run and follow it. Uses the engine that is running on this data, or hosts the run itself. "
        "Exit code: 0 completed, 1 ended otherwise, 2 bad input, 3 waits for a person."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The fabric, the request, what is attached."""
        parser.add_argument("fabric", metavar="FABRIC", help="name of a published fabric (manage.py fabric list)")
        parser.add_argument(
            "--input",
            required=True,
            metavar="TEXT|FILE",
            help="the request, or a file with it; - reads it from standard input",
        )
        parser.add_argument(
            "--attach",
            action="append",
            default=[],
            type=Path,
            metavar="FILE",
            help=f"a text document; up to {FILES_MAX} times",
        )
        parser.add_argument(
            "--tier", default=None, metavar="TIER", help=f"one of {', '.join(Tier)} (default: the fabric's)"
        )
        parser.add_argument("--wait", action="store_true", help="stay while the run waits for a person")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Starts the run, follows it, reports."""
        text = _request(options["input"])
        documents = _attached(options["attach"])
        actor = owner_actor()
        started = run_start(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            fabric=options["fabric"],
            text=text,
            documents=documents,
            tier=options["tier"],
        )
        say = progress(self)
        if say is not None:
            self.tell(f"run {started.run_id} (Ctrl-C detaches)")
        following = Following(
            actor,
            started.run_id,
            say=say or silent,
            wait=options["wait"],
            asked=lambda item: self.tell(*question(item)),
        )
        try:
            run = following.to_rest()
        except KeyboardInterrupt:
            return self._detached(actor, following, as_json=options["json"])
        return report(self, actor, run, as_json=options["json"])

    def _detached(self, actor: Actor, following: Following, *, as_json: bool) -> int:
        """Ctrl-C: the run is left as it is, for nothing that was journaled is lost."""
        run = following.look()
        if run.terminal:
            return report(self, actor, run, as_json=as_json)
        if wiring.engine_running():
            self.tell(f"detached: run {run.id} goes on in the engine that is running")
        else:
            self.tell(
                f"detached: run {run.id} is kept ({run.state}) and goes on as soon as an engine runs: manage.py up"
            )
        if as_json:
            self.put(summary(actor, run))
        return DETACHED


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


def _attached(paths: list[Path]) -> tuple[Document, ...]:
    if len(paths) > FILES_MAX:
        message = f"{len(paths)} files are attached; at most {FILES_MAX} are taken; attach fewer"
        raise Refused(message, code="too_large", field="documents")
    files = [(path.name, read_bytes(path, most=BYTES_MAX, what="a document")) for path in paths]
    try:
        return documents_of(files)
    except AttachmentRefused as error:
        raise Refused(str(error), code="invalid", field="documents") from None
