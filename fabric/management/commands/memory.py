"""`manage.py memory`: lets an operator show, write, delete and export fabrics' memories."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON
from fabric.core.values.words import instant
from fabric.management.base import OK, FabricCommand, read_text
from fabric.program.name import program
from fabric.selectors.memories.lookup import (
    KEYS_SHOWN,
    EntryFate,
    MemoryView,
    PresentEntry,
    entry_json,
    list_fabric_memories,
    memory_find,
    memory_history,
)
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.memories.changes import memory_delete, memory_export, memory_write

VALUE_BYTES_MAX = 200_000
GLANCE_CHARS = 100
BECAME: Mapping[EntryFate, str] = {
    EntryFate.STANDS: "stands",
    EntryFate.REPLACED: "replaced",
    EntryFate.TAKEN_BACK: "taken back",
    EntryFate.EXPIRED: "expired",
    EntryFate.DELETION: "deleted it",
}
"""Word for each fate; a test shows that it is total."""


class Command(FabricCommand):
    """Lists, shows, writes, deletes and exports memories, and shows their history."""

    help = "Show the memories of a fabric: list its memories and keys, or show one key with its history. Write or delete a key with a reason, which the audit stream keeps, or export the ledger as lines of JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the action, the fabric, the memory and the key."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
        for name, (_, says, places) in ACTIONS.items():
            action = actions.add_parser(name, help=says)
            for place in places:
                action.add_argument(place, metavar=place.upper())
            if name in ("list", "export"):
                action.add_argument("--memory", metavar="MEMORY", default="", help="this one alone")
            if name in ("write", "delete"):
                action.add_argument("--reason", default="", help="why: kept in the audit stream; needed")
                action.add_argument(
                    "--version",
                    dest="seen",
                    type=int,
                    metavar="N",
                    help="only if this is the current version; 0: no value (default: the version when the command looks)",
                )
            if name == "write":
                value = action.add_mutually_exclusive_group(required=True)
                value.add_argument("--value", metavar="JSON", help="the value as JSON: 40, '\"text\"', '{\"usd\": 40}'")
                value.add_argument("--file", type=Path, metavar="FILE", help="a file that holds it as JSON")
            if name == "export":
                action.add_argument("--to", type=Path, metavar="FILE", help="a new file (default: standard output)")
            else:
                action.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        for place in ("fabric", "memory", "key"):
            options[place] = clean_text(options.get(place, ""))[0]
        ACTIONS[options["action"]][0](self, owner_actor(), options)
        return OK

    def _list(self, actor: Actor, options: dict[str, Any]) -> None:
        """Write the memories of a fabric with their keys."""
        found = [
            one for one in list_fabric_memories(actor, options["fabric"]) if options["memory"] in ("", one.memory.name)
        ]
        if options["memory"] and not found:
            raise Refused(
                f"fabric {options['fabric'][:80]!r} has no memory {options['memory'][:80]!r}; leave --memory out and all are listed",
                code="not_found",
                field="memory",
            )
        if options["json"]:
            self.put({"memories": [memory_json(one) for one in found]})
            return
        for one in found:
            self._note_limit(one)
        if not found:
            self.tell("this fabric remembers nothing: a memory is declared in its YAML, under memories")

    def _note_limit(self, one: MemoryView) -> None:
        users = "; ".join(f"{verb}: {', '.join(names) or 'no agent'}" for verb, names in one.users)
        if one.memory.scope == "run":
            self.stdout.write(f"{one.memory.name}: of each run, in its journal ({users})")
            return
        self.stdout.write(f"{one.memory.name}: {one.count:,} of {one.memory.keys:,} keys ({users})")
        for entry in one.entries:
            self.stdout.write(f"  {entry.key}  version {entry.version}  {_value(entry)}  ({origin(entry)})")
        if one.count > len(one.entries):
            self.tell(f"these are the first {KEYS_SHOWN} keys of {one.count:,}; `{program()} memory export` gives all")

    def _show(self, actor: Actor, options: dict[str, Any]) -> None:
        """Write the present entry of a key, with its whole value."""
        found = memory_find(actor, options["fabric"], options["memory"], options["key"])
        if options["json"]:
            self.put(entry_json(found))
            return
        self.stdout.write(f"{found.key}, version {found.version}, {origin(found)}")
        self.stdout.write("erased" if found.erased else json.dumps(found.value, ensure_ascii=False, indent=2))

    def _history(self, actor: Actor, options: dict[str, Any]) -> None:
        """Write all entries of a key."""
        found = memory_history(actor, options["fabric"], options["memory"], options["key"])
        if options["json"]:
            self.put({"count": found.count, "entries": [entry_json(one) for one in found.entries]})
            return
        for one in found.entries:
            why = f": {one.reason}" if one.reason else ""
            self.stdout.write(f"version {one.version}  {BECAME[one.became]}  {_value(one)}  ({origin(one)}{why})")
        if found.count > len(found.entries):
            self.tell(f"these are the newest {len(found.entries)} of {found.count:,} entries; `{program()} memory export` gives all")  # fmt: skip

    def _write(self, actor: Actor, options: dict[str, Any]) -> None:
        """Write a value under a key."""
        where = {name: options[name] for name in ("fabric", "memory", "key")}
        value, seen = _value_given(options["value"], options["file"]), options["seen"]
        if seen is None:
            seen = _present_version(actor, where)
        version = memory_write(actor=actor, **where, value=value, version=seen, reason=options["reason"])
        if options["json"]:
            self.put({**where, "version": version, "replaces": seen})
        else:
            self.stdout.write(f"{where['key']} is written: version {version} stands, and the runs from now on read it.")

    def _delete(self, actor: Actor, options: dict[str, Any]) -> None:
        """Delete the entry of a key."""
        where = {name: options[name] for name in ("fabric", "memory", "key")}
        seen = memory_find(actor, **where).version if options["seen"] is None else options["seen"]
        memory_delete(actor=actor, **where, version=seen, reason=options["reason"])
        if options["json"]:
            self.put({**where, "deleted": seen})
        else:
            self.stdout.write(f"{where['key']} is deleted: no run reads it any more, and its values are erased.")

    def _export(self, actor: Actor, options: dict[str, Any]) -> None:
        """Write the ledger as lines of JSON."""
        to: Path | None = options["to"]
        if to is not None and to.exists():
            raise Refused(f"{to} is there already; name a new file", code="conflict", field="to")
        lines = memory_export(actor=actor, fabric=options["fabric"], memory=options["memory"])
        if to is None:
            for piece in lines:
                self.stdout.write(piece.decode(), ending="")
            self.stdout.flush()
            return
        with to.open("xb") as file:
            file.writelines(lines)
        self.tell(f"{to} is written")


ACTIONS: Mapping[str, tuple[Callable[[Command, Actor, dict[str, Any]], None], str, tuple[str, ...]]] = {
    "list": (Command._list, "list its memories and their keys", ("fabric",)),
    "show": (Command._show, "show the value of a key", ("fabric", "memory", "key")),
    "history": (Command._history, "everything that was written under a key", ("fabric", "memory", "key")),
    "write": (Command._write, "write a value under a key", ("fabric", "memory", "key")),
    "delete": (Command._delete, "delete a key; its values are erased", ("fabric", "memory", "key")),
    "export": (Command._export, "the whole ledger, a line of JSON an entry", ("fabric",)),
}
"""By action: its method, its help, its arguments."""


def memory_json(one: MemoryView) -> JSON:
    """Return a memory as a program reads it."""
    return {
        "name": one.memory.name,
        "scope": one.memory.scope,
        "description": one.memory.description,
        "keys": one.count,
        "keys_max": one.memory.keys,
        "users": {verb: list(names) for verb, names in one.users},
        "entries": [entry_json(entry) for entry in one.entries],
    }


def origin(one: PresentEntry) -> str:
    """Return the author of an entry with its time."""
    who = f"{one.agent} in run {one.run_id}" if one.run_id else one.actor
    return f"{who}, {instant(one.at)}"


def _value(one: PresentEntry) -> str:
    if one.value is None and (one.erased or getattr(one, "deleted", False)):
        return "erased" if one.erased else "-"
    text = json.dumps(one.value, ensure_ascii=False)
    return text if len(text) <= GLANCE_CHARS else f"{text[:GLANCE_CHARS]}…"


def _present_version(actor: Actor, where: Mapping[str, str]) -> int:
    try:
        return memory_find(actor, **where).version
    except Refused as refused:
        if refused.field != "key":
            raise
        return 0


def _value_given(value: str | None, file: Path | None) -> JSON:
    text = value if file is None else read_text(file, most=VALUE_BYTES_MAX, what="a value")
    assert text is not None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = "--value" if file is None else str(file)
        message = f"{where} is no JSON ({error}); a text needs its quotes: '\"Paid until May\"'"
        raise Refused(message, code="invalid", field="value") from None
