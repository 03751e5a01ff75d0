"""`manage.py fabric list|show|export|diff|lint|schema|mcp|openapi|publish|revert|requests|approve|reject|withdraw|
stop|allow|stops`: handles fabrics that live in a repository, and stops their new runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON
from fabric.management.base import BAD_INPUT, OK, OTHER_END, FabricCommand, providers, read_text
from fabric.management.machine_zone import choose_zone
from fabric.management.output import fabrics as words
from fabric.management.output.stops import read_span, stop_json, stop_line
from fabric.program.name import program
from fabric.selectors.drafts.change_requests import ChangeView, change_request_get, change_requests
from fabric.selectors.fabrics.lookup import fabric_revisions, fabrics_list, revision_get
from fabric.selectors.runs.stops import RunningRuns, StopView, find_open_stop, stops_list
from fabric.selectors.visible_text import visible_line
from fabric.selectors.whole_ids import whole_change_id
from fabric.services.actors import find_people, owner_actor
from fabric.services.drafts.beginnings import draft_import
from fabric.services.drafts.change_requests import change_approve, change_reject, change_request_open, change_withdraw
from fabric.services.drafts.scheduled import publication_schedule, read_time
from fabric.services.errors import Refused
from fabric.services.fabrics.checks import check_text, fabric_lint
from fabric.services.fabrics.comparison import ComparedFabric, DryRun, build_side, compare_sides, fabric_dry_run
from fabric.services.fabrics.revisions import PublishedFabric, fabric_publish, fabric_revert
from fabric.services.fabrics.schema import fabric_schema
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.export import export_revision, written_out
from fabric.services.fabrics.yaml.tree import BYTES_MAX
from fabric.services.importers.mcp import beside_tools, build_offers, server_at, servers_in
from fabric.services.importers.openapi import build_tools, document_at
from fabric.services.importers.tool_declarations import DeclaredTool, yaml_of
from fabric.services.installation import facts as here
from fabric.services.runs.stops import allow_new_runs, stop_new_runs

ACTIONS = {
    "list": "the published fabrics",
    "show": "one of them, with its revisions",
    "export": "a revision as YAML: the text that it was published with, else written out",
    "diff": "show the differences between two fabrics, revisions or files; exit code 0 same, 1 different, 2 error",
    "lint": "everything that is wrong or doubtful, with its line; ends with 0 where it could be published, else 1",
    "schema": "the JSON Schema of a fabric, for editors",
    "mcp": "list the tools of MCP servers, as declarations to paste into a fabric",
    "openapi": "declarations of HTTP tools from an OpenAPI document, to paste into a fabric",
    "publish": "publish fabrics from YAML files; none is where one of them cannot be",
    "import": "store a file as your draft, even with errors; the editor lists them",
    "revert": "make an older revision the published one again",
    "requests": "changes that wait for a second person",
    "approve": "approve another person's change, which publishes exactly that",
    "reject": "reject another person's change, with a reason",
    "withdraw": "take back a request of one's own",
    "stop": "stop new runs of a fabric, or of the whole workspace with --all",
    "allow": "allow new runs again, and resume the runs that the stop paused",
    "stops": "stops of new runs: those that stand, then those that ended, the latest first",
}
_NAMED = re.compile(r"([a-z][a-z0-9_-]{0,62})(?:@([1-9][0-9]{0,8}))?")
"""``small`` or ``small@2``; any other argument is a file."""


class Command(FabricCommand):
    """Shows, compares, judges and publishes fabrics that live in a repository."""

    help = "List, show, export, compare, judge and publish fabrics. Stop their new runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions, each with ``--json``."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
        made = {name: actions.add_parser(name, help=said, description=said) for name, said in ACTIONS.items()}
        for name in ("show", "export", "revert"):
            made[name].add_argument("name", metavar="NAME", help="the fabric")
        for name in ("show", "export"):
            made[name].add_argument("--revision", type=int, metavar="N", help="else the published one")
        made["export"].add_argument(
            "--written-out", action="store_true", help="every field, with a comment at each budget and limit"
        )
        for name in ("export", "schema"):
            made[name].add_argument("-o", "--output", type=Path, metavar="FILE", help="else standard output")
        for side in ("before", "after"):
            made["diff"].add_argument(side, metavar=side.upper(), help="NAME, NAME@N or FILE")
        made["diff"].add_argument("--text", action="store_true", help="also line by line, both written out")
        made["lint"].add_argument("subjects", nargs="+", metavar="FILE|NAME", help="files, fabrics or NAME@N")
        _add_import_arguments(made["mcp"], made["openapi"])
        _add_publish_arguments(made["publish"])
        made["import"].add_argument("file", type=Path, metavar="FILE")
        made["import"].add_argument("--name", default="", metavar="NAME", help="else as the file says, or is called")
        made["import"].add_argument(
            "--replace",
            action="store_true",
            help="where you have a draft of it: give it this text, which can be undone",
        )
        for name in ("publish", "revert"):
            made[name].add_argument("--request", action="store_true", help="ask a second person to agree to it")
            made[name].add_argument(
                "--message", default="", metavar="TEXT", help="reason for the change; its version shows it"
            )
        made["requests"].add_argument("name", nargs="?", default="", metavar="NAME", help="of one fabric")
        made["requests"].add_argument("--all", action="store_true", help="those that are decided as well")
        _add_request_arguments(made["approve"], made["reject"], made["withdraw"])
        made["revert"].add_argument("number", type=int, metavar="N", help="number of the revision")
        for name in ("publish", "revert"):
            made[name].add_argument(
                "--expect-revision",
                type=int,
                metavar="N",
                help="refuse where another revision is published by now; 0: where any is",
            )
        _add_stop_arguments(made["stop"], made["allow"])
        for action in made.values():
            action.add_argument("--json", action="store_true", help="one line of JSON for each result")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        if "id" in options:
            options["id"] = whole_change_id(actor, options["id"])
        done: int = getattr(self, f"_{options['action']}")(actor, options)
        return done

    # -- looking -------------------------------------------------------------------------------------------------------

    def _list(self, actor: Actor, options: dict[str, Any]) -> int:
        found = fabrics_list(actor)
        if options["json"]:
            self.put([words.fabric_json(view) for view in found])
            return OK
        width = max((len(view.name) for view in found), default=0)
        for view in found:
            self.stdout.write(f"{view.name:<{width}}  revision {view.number}  {view.tier:<11}  {view.title}")
        if not found:
            self.tell(f"no fabric is published yet; publish one with `{program()} fabric publish FILE`")
        return OK

    def _show(self, actor: Actor, options: dict[str, Any]) -> int:
        page = revision_get(actor, options["name"], options["revision"])
        _, revisions = fabric_revisions(actor, options["name"])
        if options["json"]:
            self.put(words.revision_json(page, revisions))
            return OK
        standing = "published" if page.current else f"revision {page.fabric.number} is published"
        self.stdout.write(f"{page.fabric.name}: {page.spec.title}")
        self.stdout.write(f"revision {page.number} ({standing}), content {page.digest}")
        self.stdout.write(f"agents: {', '.join(agent.name for agent in page.spec.agents)}")
        for one in revisions:
            mark = "*" if one.current else " "
            self.stdout.write(f"{mark} {one.number}  {one.published_at:%Y-%m-%d %H:%M} UTC  by {one.published_by}")
        return OK

    def _export(self, actor: Actor, options: dict[str, Any]) -> int:
        page = revision_get(actor, options["name"], options["revision"])
        text = written_out(page.spec) if options["written_out"] else export_revision(page)
        if options["json"]:
            revision = {"name": page.fabric.name, "number": page.number, "digest": page.digest}
            self.put({**revision, "as_published": text == page.source, "yaml": text})
        self._write_text(text, options)
        return OK

    def _schema(self, actor: Actor, options: dict[str, Any]) -> int:
        schema = fabric_schema()
        if options["json"]:
            self.put(schema)
        self._write_text(json.dumps(schema, ensure_ascii=False, indent=2) + "\n", options)
        return OK

    def _write_text(self, text: str, options: dict[str, Any]) -> None:
        """Write a text to its target, byte for byte."""
        if options["output"] is not None:
            options["output"].write_bytes(text.encode())
        elif not options["json"]:
            self.stdout.write(text, ending="")

    def _diff(self, actor: Actor, options: dict[str, Any]) -> int:
        found = compare_sides(*(self._side(actor, options[side]) for side in ("before", "after")))
        text = found.text() if options["text"] else None
        if options["json"]:
            self.put(words.comparison_json(found, text))
        else:
            for line in map(words.change, found.changes):
                self.stdout.write(line)
            self.stdout.write(text or "", ending="")
            if found.same:
                self.tell(f"{found.before.called} and {found.after.called} are the same content")
        return OK if found.same else OTHER_END

    def _side(self, actor: Actor, given: str) -> ComparedFabric:
        if named := _NAMED.fullmatch(given):
            return build_side(actor, named[1], int(named[2]) if named[2] else None)
        path = Path(given)
        return ComparedFabric(path.name, fabric_read(_text(path), origin=path.name).spec)

    # -- tools from elsewhere ------------------------------------------------------------------------------------------

    def _mcp(self, actor: Actor, options: dict[str, Any]) -> int:
        given, wanted = options["source"], options["servers"]
        if given.startswith(("http://", "https://")):
            servers = [server_at(given)]
        elif named := _NAMED.fullmatch(given):
            servers = list(revision_get(actor, named[1], int(named[2]) if named[2] else None).spec.mcp_servers)
        else:
            servers = servers_in(_text(Path(given)), origin=Path(given).name)
        if missing := [name for name in wanted if name not in {one.name for one in servers}]:
            there = ", ".join(one.name for one in servers) or "none"
            raise Refused(f"no MCP server is named {missing[0]!r}; there are: {there}", code="invalid", field="server")
        chosen = [one for one in servers if not wanted or one.name in wanted]
        if not chosen:
            raise Refused(f"{given} declares no MCP servers", code="invalid", field="server")
        where = here.installation()
        found: list[DeclaredTool] = []
        beside: list[str] = []
        for server in chosen:
            offers = build_offers(server, where.gate, where.permits, taken=[one.tool.name for one in found])
            found += offers.tools
            beside += beside_tools(server, offers)
            if options["json"]:
                self.put(words.offers_json(server, offers))
            self.tell(*(f"left out: {one}" for one in offers.left_out))
        if not options["json"]:
            self.stdout.write(yaml_of(found, chosen) + "".join(f"{line}\n" for line in beside), ending="")
        return OK

    def _openapi(self, actor: Actor, options: dict[str, Any]) -> int:
        document = document_at(options["source"], here.installation().gate)
        found = build_tools(document, wanted=options["operation"], base=options["base"])
        if options["json"]:
            self.put(words.declarations_json(found))
        else:
            self.stdout.write(yaml_of(found.tools), ending="")
        self.tell(*(f"left out: {one}" for one in found.left_out))
        return OK

    # -- stops of new runs ---------------------------------------------------------------------------------------------

    def _stop(self, actor: Actor, options: dict[str, Any]) -> int:
        given = {name: options[name] for name in ("reason", "running", "for_s")}
        return self._put_stops([stop_new_runs(actor=actor, fabric=_place(options), **given)], options)

    def _allow(self, actor: Actor, options: dict[str, Any]) -> int:
        standing = find_open_stop(actor, _place(options))
        return self._put_stops([allow_new_runs(actor=actor, stop_id=standing.id, resume=options["resume"])], options)

    def _stops(self, actor: Actor, options: dict[str, Any]) -> int:
        return self._put_stops(stops_list(actor), options)

    def _put_stops(self, found: list[StopView], options: dict[str, Any]) -> int:
        if options["json"]:
            self.put([stop_json(one) for one in found])
            return OK
        for one in found:
            self.stdout.write(visible_line(stop_line(one)))
        if not found:
            self.tell("new runs were never stopped")
        return OK

    # -- judging and publishing ----------------------------------------------------------------------------------------

    def _lint(self, actor: Actor, options: dict[str, Any]) -> int:
        known, publishable = providers(), True
        for given in options["subjects"]:
            if named := _NAMED.fullmatch(given):
                page = revision_get(actor, named[1], int(named[2]) if named[2] else None)
                source, origin = export_revision(page), f"{page.fabric.name}@{page.number}"
            else:
                source, origin = _text(Path(given)), Path(given).name
            found = fabric_lint(actor=actor, source=source, origin=origin, providers=known)
            publishable = publishable and found.publishable
            if options["json"]:
                self.put(words.lint_json(found))
                continue
            for line in words.lint_lines(found):
                self.stdout.write(line)
        return OK if publishable else OTHER_END

    def _publish(self, actor: Actor, options: dict[str, Any]) -> int:
        files, expect = options["files"], options["expect_revision"]
        if len(files) > 1 and (expect is not None or options["request"] or options["at"]):
            only = "--request" if options["request"] else "--at" if options["at"] else "--expect-revision"
            raise Refused(f"{only} is about one fabric; give one FILE with it", code="invalid")
        if options["at"] and options["request"]:
            raise Refused(
                "--request asks a second person, and --at publishes at a time: give one of them", code="invalid"
            )
        if options["at"] and not options["dry_run"]:
            return self._schedule(actor, files[0], options)
        if options["request"] and not options["dry_run"]:
            return self._ask(actor, _text(files[0]), files[0].name, options)
        known = providers()
        asked: list[dict[str, Any]] = [
            {"actor": actor, "source": _text(path), "origin": path.name, "providers": known, "expect": expect}
            for path in files
        ]
        judged: list[DryRun] = []
        refused: list[str] = []
        for one in asked:
            try:
                judged.append(fabric_dry_run(**one))
            except Refused as error:
                if len(asked) == 1:
                    raise
                refused += error.problems
        _each_once(files, [run.published.name for run in judged] if not refused else [])
        if refused:
            self.tell(*refused, "nothing was published: every file has to be publishable")
            return BAD_INPUT
        for run, one in zip(judged, asked, strict=True):
            if options["dry_run"]:
                self._note_deviations(run.published)
                self._write_answer(words.dry_run_json(run), [*words.effect_lines(run)], options)
            else:
                done = fabric_publish(**one, message=options["message"])
                self._note_deviations(done)
                self._write_answer(words.publication_json(done), [words.outcome(done)], options)
        return OK

    def _schedule(self, actor: Actor, path: Path, options: dict[str, Any]) -> int:
        found = publication_schedule(
            actor=actor,
            source=_text(path),
            publish_at=read_time(options["at"], choose_zone()),
            origin=path.name,
            message=options["message"],
            providers=providers(),
            expect=options["expect_revision"],
        )
        self._write_answer(words.request_json(found), [words.schedule_sentence(found)], options)
        return OK

    def _revert(self, actor: Actor, options: dict[str, Any]) -> int:
        if options["request"]:
            page = revision_get(actor, options["name"], options["number"])
            return self._ask(actor, export_revision(page), f"{page.fabric.name}@{page.number}", options)
        done = fabric_revert(
            actor=actor,
            name=options["name"],
            number=options["number"],
            providers=providers(),
            expect=options["expect_revision"],
        )
        self._note_deviations(done)
        self._write_answer(words.publication_json(done), [words.outcome(done, reverted=True)], options)
        return OK

    # -- a second person -----------------------------------------------------------------------------------------------

    def _ask(self, actor: Actor, source: str, origin: str, options: dict[str, Any]) -> int:
        found = change_request_open(
            actor=actor,
            source=source,
            origin=origin,
            message=options["message"],
            providers=providers(),
            expect=options["expect_revision"],
        )
        self._write_answer(words.request_json(found), [words.request_sentence(found)], options)
        return OK

    def _requests(self, actor: Actor, options: dict[str, Any]) -> int:
        found = change_requests(actor, options["name"], waiting=not options["all"])
        if options["json"]:
            self.put([words.request_json(one) for one in found])
            return OK
        for one in found:
            self.stdout.write(words.request_line(one))
        if not found:
            self.tell("no change of a fabric waits for a second person")
        return OK

    def _approve(self, actor: Actor, options: dict[str, Any]) -> int:
        if not options["digest"]:
            self._show_change(change_request_get(actor, options["id"]), actor)
        done = change_approve(actor=actor, request_id=options["id"], digest=options["digest"], providers=providers())
        self._note_deviations(done)
        self._write_answer(words.publication_json(done), [words.outcome(done)], options)
        return OK

    def _show_change(self, found: ChangeView, actor: Actor) -> None:
        """Show the change before its approval, with the digest that the approval names."""
        if found.base is None:
            lines = found.text.splitlines()
        else:
            asked = ComparedFabric(found.id, fabric_read(found.text, origin=f"request of {found.author}").spec)
            lines = [
                words.change(one) for one in compare_sides(build_side(actor, found.name, found.base), asked).changes
            ]
        self.tell(*map(visible_line, (words.request_line(found), *lines, f"digest {found.digest}")))

    def _reject(self, actor: Actor, options: dict[str, Any]) -> int:
        found = change_reject(actor=actor, request_id=options["id"], reason=options["reason"])
        self._write_answer(words.request_json(found), [words.request_line(found)], options)
        return OK

    def _withdraw(self, actor: Actor, options: dict[str, Any]) -> int:
        found = change_withdraw(actor=actor, request_id=options["id"])
        self._write_answer(words.request_json(found), [words.request_line(found)], options)
        return OK

    def _import(self, actor: Actor, options: dict[str, Any]) -> int:
        path = options["file"]
        found = draft_import(
            actor=actor, text=_text(path), name=options["name"], origin=path.name, replace=options["replace"]
        )
        where = here.installation(
            providers(), people=find_people(actor.workspace_id, found.draft.name), workspace_id=actor.workspace_id
        )
        said = check_text(found.draft.text, where, name=found.draft.name)
        self.tell(*(one.sentence_with_place for one in said.findings))
        self._write_answer(words.import_json(found, said), [words.import_line(found, said)], options)
        return OK

    def _note_deviations(self, done: PublishedFabric) -> None:
        self.tell(*(f"note: {warning}" for warning in done.warnings))
        self.tell(*(f"deviation: {one.path}: {one.what} ({one.reason})" for one in done.deviations))

    def _write_answer(self, as_json: JSON, lines: Sequence[str], options: dict[str, Any]) -> None:
        if options["json"]:
            self.put(as_json)
            return
        for line in lines:
            self.stdout.write(line)


def _add_request_arguments(approve: CommandParser, reject: CommandParser, withdraw: CommandParser) -> None:
    for one in (approve, reject, withdraw):
        one.add_argument("id", metavar="ID", help="the request, as listed, or a part that begins or ends it")
    said = "digest of the change that you reviewed; without it the change is shown"
    approve.add_argument("--digest", default="", metavar="DIGEST", help=said)
    reject.add_argument("--reason", required=True, metavar="TEXT", help="its author reads it")


def _add_import_arguments(mcp: CommandParser, openapi: CommandParser) -> None:
    mcp.add_argument("source", metavar="URL|FILE|NAME", help="an address, or a fabric that declares servers")
    mcp.add_argument("servers", nargs="*", metavar="SERVER", help="only these; default: all")
    openapi.add_argument("source", metavar="FILE|URL", help="OpenAPI 3.0 or 3.1, JSON or YAML")
    openapi.add_argument("--operation", nargs="+", default=[], metavar="ID", help="these; else all")
    openapi.add_argument("--base", default="", metavar="URL", help="where the API is; else as it says")


def _add_publish_arguments(publish: CommandParser) -> None:
    publish.add_argument("files", nargs="+", type=Path, metavar="FILE")
    publish.add_argument(
        "--at",
        default="",
        metavar="TIME",
        help="publish it then, such as 2026-12-01T18:00; `fabric withdraw` cancels",
    )
    publish.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def _add_stop_arguments(stop: CommandParser, allow: CommandParser) -> None:
    for one in (stop, allow):
        one.add_argument("name", nargs="?", default="", metavar="NAME", help="the fabric")
        one.add_argument("--all", action="store_true", help="the whole workspace, in place of NAME")
    stop.add_argument(
        "--reason", default="", metavar="TEXT", help="why; each member whose start is refused reads it; needed"
    )
    stop.add_argument(
        "--running",
        choices=list(RunningRuns),
        default=RunningRuns.FINISH,
        help="what workers do with the runs that were started before (default: %(default)s)",
    )
    stop.add_argument(
        "--for", type=read_span, dest="for_s", metavar="TIME", help="30m, 2h or 1d: then new runs are allowed again"
    )
    allow.add_argument("--resume", action="store_true", help="also resume the runs that the stop paused")


def _place(options: dict[str, Any]) -> str:
    """Return the name of the fabric; empty: the whole workspace. Raises Refused for both, and for neither."""
    if options["all"] == bool(options["name"]):
        raise Refused("name one fabric, or give --all for the whole workspace", code="invalid", field="name")
    return str(options["name"])


def _text(path: Path) -> str:
    return read_text(path, most=BYTES_MAX, what="a fabric")


def _each_once(files: Sequence[Path], names: Sequence[str]) -> None:
    """Raise Refused for two files of one fabric: one would be published over the other."""
    first: dict[str, Path] = {}
    for path, name in zip(files, names, strict=False):
        if name in first:
            message = f"{first[name]} and {path} are both the fabric {name!r}; publish one of them"
            raise Refused(message, code="invalid", field="file")
        first[name] = path
