"""`manage.py run VERB`: starts, lists, shows, follows, explains and controls runs."""

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
from fabric.core.values.labels import LABELS_MAX, gather_labels, split_label
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.management.base import DETACHED, OK, FabricCommand, read_bytes, read_text
from fabric.management.machine_zone import choose_zone
from fabric.management.nouns import add_verbs
from fabric.management.output.reviews import review_lines
from fabric.management.output.run_list import (
    RunsAsked,
    find_run_lines,
    find_runs,
    has_more,
    list_lines,
    page_address,
    row_json,
    show_lines,
)
from fabric.management.output.run_past import past_json, past_lines
from fabric.management.output.run_stats import StatsAsked, find_stats, stats_json, stats_lines
from fabric.management.output.runs import documents_read, progress, report, summary
from fabric.management.run_follower import Following, silent
from fabric.management.run_jobs import act_on_matching
from fabric.program.name import program
from fabric.runtime.ports.batch_parts import excerpt, find_origin
from fabric.runtime.ports.journal import Document
from fabric.selectors.dashboards.asked import DAYS, USUAL_RANGE, Width
from fabric.selectors.list_file import FORMS
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.past.views import build_past_run, require_event
from fabric.selectors.runs.story.fold import run_story
from fabric.selectors.whole_ids import whole_run_id
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.runs.control import run_cancel, run_context, run_pause, run_resume, run_say, run_terminate
from fabric.services.runs.forks import REQUEST, ForkEdit, run_fork
from fabric.services.runs.labels import refuse_bad_label, run_label
from fabric.services.runs.start import TEXT_BYTES_MAX, run_start

PATH_CHARS_MAX = 4_096
LIMIT = 20
STDIN, FILE = "-", "@"


class Command(FabricCommand):
    """Starts, lists, shows, follows and controls runs."""

    help = (
        "Start, list, show, follow, explain and control runs. A verb that drives a run uses the engine that runs on this data, or hosts the run "
        "itself. Exit code: 0 completed, 1 ended otherwise, 2 bad input, 3 waits or is paused. RUN is an id, or a part that begins or ends one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the verbs."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="VERB")
        start, listing, stats = _add_start(actions), _add_list(actions), _add_stats(actions)
        show = actions.add_parser("show", help="what is known of a run, and its open reviews")
        label = actions.add_parser("label", help="set and remove labels of a run")
        show.add_argument("--at", type=int, metavar="N", help="as it was right after its event N")
        follow = actions.add_parser("follow", help="show a run's events until it ends or waits; Ctrl-C detaches")
        controls = [_add_control(actions, verb, says) for verb, (_, says) in VERBS.items()]
        for one in (show, label, follow, *controls):
            many = "?" if one in controls and one.get_default("many") else None
            one.add_argument("run", metavar="RUN", help="its id, or a part that begins or ends it", nargs=many)
        label.add_argument("labels", nargs="+", metavar="LABEL", help="KEY=VALUE sets one, KEY- removes one")
        retry = actions.add_parser("retry", help="try all matching runs again that ended without an answer")
        _add_query(retry, required=True)
        for one in (start, follow, *controls):
            one.add_argument("--wait", action="store_true", help="stay while the run waits for a person")
        for one in (start, listing, stats, show, label, follow, retry, *controls):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")
        add_verbs(
            actions,
            {
                "explain": ("explain", "explain each decision of it"),
                "export": ("export_run", "write it as files that verify anywhere"),
            },
        )

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the verb."""
        actor, action = owner_actor(), options["action"]
        if options.get("query") is not None and action not in ("list", "stats"):
            return self._act_on_matching(actor, options)
        if "run" in options:
            if options["run"] is None:
                raise Refused("name a run, or give --query with the runs", code="invalid", field="run")
            options["run"] = whole_run_id(actor, options["run"])
        if action in VERBS:
            return self._control(actor, options)
        done: int = getattr(self, f"_{action}")(actor, options)
        return done

    def _start(self, actor: Actor, options: dict[str, Any]) -> int:
        if options["input"] is None:
            message = "give the request with --input TEXT, --input @FILE, or --input - for standard input"
            raise Refused(message, code="invalid", field="input")
        text = self._read_input(options["input"])
        documents = _read_attachments(options["attach"])
        with refuse_bad_label():
            labels = gather_labels(map(split_label, options["label"]))
        started = run_start(
            store=wiring.store(),
            nudge=wiring.nudge(),
            now=wiring.clock().now,
            actor=actor,
            fabric=options["fabric"],
            text=text,
            documents=documents,
            tier=options["tier"],
            labels=labels,
        )
        if not options["json"]:
            self.tell(*(_describe_reading(one) for one in documents))
        return self._follow_run(actor, started.run_id, options)

    def _list(self, actor: Actor, options: dict[str, Any]) -> int:
        zone = choose_zone(options["zone"])
        asked = RunsAsked(" ".join(options["query"]), options["sort"], options["limit"], options["after"], zone)
        if options["format"]:
            return self._export(actor, asked, options)
        if options["out"]:
            message = f"--out needs the kind of file; write --format {' or --format '.join(FORMS)}"
            raise Refused(message, code="invalid", field="out")
        page = find_runs(actor, asked)
        more = page.last if page.rows and has_more(page) else ""
        if options["json"]:
            self.put({"runs": [row_json(row) for row in page.rows], "next": more or None})
            return OK
        if options["quiet"]:
            for row in page.rows:
                self.stdout.write(row.id)
            return OK
        for line in list_lines(page, terminal=self.stdout.isatty()):
            self.stdout.write(line)
        if not page.rows:
            self.tell("no run matches")
        if more:
            self.tell(f"there are more: --after {more}")
        return OK

    def _stats(self, actor: Actor, options: dict[str, Any]) -> int:
        zone = choose_zone(options["zone"])
        given = StatsAsked(" ".join(options["query"]), options["range"], options["bucket"], options["by"], zone)
        asked, found = find_stats(actor, given)
        if options["json"]:
            self.put(stats_json(asked, found))
            return OK
        for line in stats_lines(asked, found):
            self.stdout.write(line)
        return OK

    def _export(self, actor: Actor, asked: RunsAsked, options: dict[str, Any]) -> int:
        lines = find_run_lines(actor, asked, options["format"])
        self.write_list(lambda: lines, options["out"], field="out")
        if lines.cut:
            self.tell(f"The list is cut: {lines.cut}.")
        return OK

    def _label(self, actor: Actor, options: dict[str, Any]) -> int:
        given = [(one, one.endswith("-") and "=" not in one) for one in options["labels"]]
        with refuse_bad_label():
            wanted = gather_labels(split_label(one) for one, removes in given if not removes)
        removed = [one[:-1] for one, removes in given if removes]
        labels = run_label(actor=actor, run_id=options["run"], set=wanted, delete=removed)
        if options["json"]:
            self.put({"run_id": options["run"], "labels": labels})
            return OK
        for key, value in labels.items():
            self.stdout.write(f"{key}={value}")
        if not labels:
            self.tell("the run has no label")
        return OK

    def _show(self, actor: Actor, options: dict[str, Any]) -> int:
        run = run_get(actor, options["run"])
        if options["at"] is not None:
            return self._show_past(actor, run, options)
        if options["json"]:
            self.put(summary(actor, run) | {"page": page_address(run.id), "documents": documents_read(run.id)})
            return OK
        for line in show_lines(run, terminal=self.stdout.isatty()):
            self.stdout.write(line)
        for item in list_open_reviews(actor, run.id, family=True):
            self.stdout.write("\n".join(review_lines(item)))
        return OK

    def _show_past(self, actor: Actor, run: RunView, options: dict[str, Any]) -> int:
        past = build_past_run(run, run_story(actor, run.id, upto=require_event(run, options["at"])))
        if options["json"]:
            self.put(past_json(past))
            return OK
        for line in past_lines(past, terminal=self.stdout.isatty()):
            self.stdout.write(line)
        return OK

    def _follow(self, actor: Actor, options: dict[str, Any]) -> int:
        return self._follow_run(actor, run_get(actor, options["run"]).id, options)

    def _control(self, actor: Actor, options: dict[str, Any]) -> int:
        """Carry out the verb; follow the run where it is hosted here, or a fork."""
        verb, given = options["action"], options.get("input")
        elsewhere = wiring.engine_running()
        run_id = VERBS[verb][0](
            {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor, "run_id": options["run"]},
            options | {"text": None if given is None else self._read_input(given)},
        )
        if not elsewhere or verb == "fork":
            return self._follow_run(actor, run_id, options)
        run = run_get(actor, run_id)
        self.tell(f"{verb} is recorded; the running engine continues run {run_id}")
        if options["json"]:
            self.put(summary(actor, run) | {"documents": documents_read(run.id)})
        return OK

    def _act_on_matching(self, actor: Actor, options: dict[str, Any]) -> int:
        if options.get("run") is not None:
            raise Refused("give either RUN or --query, not both", code="invalid", field="query")
        return act_on_matching(self, actor, options)

    def _follow_run(self, actor: Actor, run_id: str, options: dict[str, Any]) -> int:
        """Follow the run to its end, or to its wait for a person."""
        say = progress(self)
        if say is not None:
            self.tell(f"run {run_id} (Ctrl-C detaches; times are UTC)", f"page {page_address(run_id)}")
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
            self.tell(
                f"detached: run {run.id} is stored ({run.state}) and continues when an engine runs: {program()} up"
            )
        self.tell(f"follow it again with: {program()} run follow {run.id}")
        if as_json:
            self.put(summary(actor, run) | {"documents": documents_read(run.id)})
        return DETACHED

    def _read_input(self, given: str) -> str:
        """Return a text: the argument itself, the content of ``@FILE``, or standard input for ``-``."""
        if given == STDIN:
            return sys.stdin.read(TEXT_BYTES_MAX + 1)
        if given.startswith(FILE):
            return read_text(Path(given[1:]), most=TEXT_BYTES_MAX, what="a request")
        if _names_file(given):  # As the release before this one read it.
            self.tell(f"`--input FILE` is now `--input @FILE`; the next release takes {given!r} as the text itself.")
            return read_text(Path(given), most=TEXT_BYTES_MAX, what="a request")
        return given


Ports = dict[str, Any]
Verb = Callable[[Ports, dict[str, Any]], str]


def _control_verb(service: Callable[..., bool], *given: str) -> Verb:
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
        raise Refused("--edit needs the stage's new output: --input @FILE with its JSON", code="invalid", field="input")
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refused(f"--input is no JSON: {error}", code="invalid", field="input") from None


VERBS: Mapping[str, tuple[Verb, str]] = {
    "pause": (_control_verb(run_pause, "reason"), "pause it: what is under way ends, and nothing begins"),
    "resume": (_control_verb(run_resume), "let it continue"),
    "cancel": (_control_verb(run_cancel, "reason"), "end it, and undo what can be undone"),
    "terminate": (_control_verb(run_terminate, "reason"), "end it at once, and undo nothing"),
    "say": (_say, "send a message that the next speaker reads"),
    "context": (_context, "set or delete context variables"),
    "fork": (_fork, "start a run that continues from one of its events"),
}
"""Actions on a run, each with its line of help; each returns the id of the run that goes on."""


def _add_start(actions: Any) -> CommandParser:
    start: CommandParser = actions.add_parser("start", help="start a run and follow it")
    start.add_argument("fabric", metavar="FABRIC", help="name of a published fabric")
    _add_input(start, "the request")
    start.add_argument(
        "-a",
        "--attach",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help=f"a PDF, DOCX, XLSX, CSV or text file; up to {FILES_MAX} times",
    )
    start.add_argument("--tier", metavar="TIER", help=f"one of {', '.join(Tier)} (default: the fabric's)")
    start.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"a label, such as team=ops; up to {LABELS_MAX} times",
    )
    return start


def _add_list(actions: Any) -> CommandParser:
    listing: CommandParser = actions.add_parser("list", help="runs, the newest first")
    listing.add_argument("query", nargs="*", metavar="QUERY", help="as on the page Runs: state:failed started:-4h")
    listing.add_argument("--sort", default="", metavar="ORDER", help="such as -started, or started; a minus: falling")
    listing.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"at most so many ({LIMIT})")
    listing.add_argument("--after", default="", metavar="CURSOR", help="continue after the previous page")
    _add_zone(listing)
    listing.add_argument("--format", choices=sorted(FORMS), help="write all that match as a file of this kind")
    listing.add_argument("--out", type=Path, metavar="FILE", help="the file of --format (standard output)")
    listing.add_argument("-q", "--quiet", action="store_true", help="nothing but whole ids")
    return listing


def _add_stats(actions: Any) -> CommandParser:
    stats: CommandParser = actions.add_parser("stats", help="figures of runs, as on Dashboards")
    stats.add_argument("query", nargs="*", metavar="QUERY", help="as on the page Runs")
    stats.add_argument("--range", default="", metavar="RANGE", help=f"{', '.join(DAYS)} ({USUAL_RANGE})")
    stats.add_argument("--bucket", default="", metavar="WIDTH", help=f"{', '.join(Width)}")
    stats.add_argument("--by", default="", metavar="WHAT", help="fabric, revision, model, agent, label.KEY")
    _add_zone(stats)
    return stats


def _add_control(actions: Any, verb: str, says: str) -> CommandParser:
    parser: CommandParser = actions.add_parser(verb, help=says, description=says)
    if verb in MANY:
        parser.set_defaults(many=True)
        _add_query(parser)
    if verb in ("pause", "cancel", "terminate"):
        parser.add_argument("--reason", default="", metavar="TEXT", help="why: kept in the journal; terminate needs it")
    elif verb == "say":
        _add_input(parser, "the message")
    elif verb == "context":
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable; JSON, else text"
        )
        parser.add_argument("--delete", action="append", default=[], metavar="NAME", help="one to delete")
    elif verb == "fork":
        parser.add_argument("--event", type=int, metavar="N", help="the event to continue from")
        parser.add_argument("--edit", metavar="STAGE", help="--input is the new output of this stage as JSON")
        _add_input(parser, "a new request")
    return parser


MANY = ("pause", "resume", "cancel", "terminate")
"""Verbs that also act on all runs of a query."""


def _add_query(parser: CommandParser, *, required: bool = False) -> None:
    parser.add_argument(
        "--query", required=required, metavar="QUERY", help="all runs that match, as on the page Runs, in place of RUN"
    )
    parser.add_argument("--yes", action="store_true", help="with --query: do it; without, say how many runs match")
    _add_zone(parser)


def _add_zone(parser: CommandParser) -> None:
    parser.add_argument("--zone", default="", metavar="ZONE", help="time zone of days and hours (the machine's)")


def _add_input(parser: CommandParser, what: str) -> None:
    parser.add_argument(
        "-i", "--input", metavar="TEXT|@FILE|-", help=f"{what}: itself, in a file, or on standard input"
    )


def _names_file(given: str) -> bool:
    try:
        return len(given) <= PATH_CHARS_MAX and "\n" not in given and Path(given).is_file()
    except (OSError, ValueError):
        return False  # Too long or too odd for a name: it is the text itself.


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
