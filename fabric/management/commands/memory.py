"""`manage.py memory`: what fabrics remember between runs; looked at, written, deleted and exported by an operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.core.words import instant
from fabric.management.base import OK, FabricCommand, read_text
from fabric.selectors.memories import KEYS_SHOWN, MemoryView, Remembered, memories_of, memory_find
from fabric.selectors.memory_history import Became, memory_history, told
from fabric.services.errors import Refused
from fabric.services.memories import memory_delete, memory_export, memory_write
from fabric.services.workspaces import owner_actor

JSON = Any
VALUE_BYTES_MAX = 200_000
GLANCE_CHARS = 100
BECAME: Mapping[Became, str] = {
    Became.STANDS: "stands",
    Became.REPLACED: "replaced",
    Became.TAKEN_BACK: "taken back",
    Became.EXPIRED: "expired",
    Became.DELETION: "deleted it",
}
"""Total by test."""


class Command(FabricCommand):
    """Lists, shows, tells the history, writes, deletes, exports."""

    help = (
        "What a fabric remembers between its runs: list its memories and keys, or show one key and all that was written under it. "
        "Write or delete a key with a reason, which the audit stream keeps, or export the ledger as lines of JSON."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """A word for what to do, then the fabric, the memory and the key."""
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
                    help="only if this version stands there; 0: nothing does (default: whatever stands when the command looks)",
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
        """Does what the word says."""
        for place in ("fabric", "memory", "key"):
            options[place] = clean_text(options.get(place, ""))[0]
        ACTIONS[options["action"]][0](self, owner_actor(), options)
        return OK

    def _list(self, actor: Actor, options: dict[str, Any]) -> None:
        """The memories of a fabric with their keys."""
        found = [one for one in memories_of(actor, options["fabric"]) if options["memory"] in ("", one.memory.name)]
        if options["memory"] and not found:
            raise Refused(
                f"fabric {options['fabric'][:80]!r} has no memory {options['memory'][:80]!r}; leave --memory out and all are listed",
                code="not_found",
                field="memory",
            )
        if options["json"]:
            self.put({"memories": [listed(one) for one in found]})
            return
        for one in found:
            self._listed(one)
        if not found:
            self.tell("this fabric remembers nothing: a memory is declared in its YAML, under memories")

    def _listed(self, one: MemoryView) -> None:
        users = "; ".join(f"{verb}: {', '.join(names) or 'nobody'}" for verb, names in one.users)
        if one.memory.scope == "run":
            self.stdout.write(f"{one.memory.name}: of each run, in its journal ({users})")
            return
        self.stdout.write(f"{one.memory.name}: {one.count:,} of {one.memory.keys:,} keys ({users})")
        for entry in one.entries:
            self.stdout.write(f"  {entry.key}  version {entry.version}  {_value(entry)}  ({origin(entry)})")
        if one.count > len(one.entries):
            self.tell(f"these are the first {KEYS_SHOWN} keys of {one.count:,}; `manage.py memory export` gives all")

    def _show(self, actor: Actor, options: dict[str, Any]) -> None:
        """What stands under a key, the whole value."""
        found = memory_find(actor, options["fabric"], options["memory"], options["key"])
        if options["json"]:
            self.put(told(found))
            return
        self.stdout.write(f"{found.key}, version {found.version}, {origin(found)}")
        self.stdout.write("erased" if found.erased else json.dumps(found.value, ensure_ascii=False, indent=2))

    def _history(self, actor: Actor, options: dict[str, Any]) -> None:
        """What was ever written under a key."""
        found = memory_history(actor, options["fabric"], options["memory"], options["key"])
        if options["json"]:
            self.put({"count": found.count, "entries": [told(one) for one in found.entries]})
            return
        for one in found.entries:
            why = f": {one.reason}" if one.reason else ""
            self.stdout.write(f"version {one.version}  {BECAME[one.became]}  {_value(one)}  ({origin(one)}{why})")
        if found.count > len(found.entries):
            self.tell(f"these are the newest {len(found.entries)} of {found.count:,} entries; `manage.py memory export` gives all")  # fmt: skip

    def _write(self, actor: Actor, options: dict[str, Any]) -> None:
        """Writes a value under a key."""
        where = {name: options[name] for name in ("fabric", "memory", "key")}
        value, seen = _given(options["value"], options["file"]), options["seen"]
        if seen is None:
            seen = _standing(actor, where)
        version = memory_write(actor=actor, **where, value=value, version=seen, reason=options["reason"])
        if options["json"]:
            self.put({**where, "version": version, "replaces": seen})
        else:
            self.stdout.write(f"{where['key']} is written: version {version} stands, and the runs from now on read it.")

    def _delete(self, actor: Actor, options: dict[str, Any]) -> None:
        """Deletes what stands under a key."""
        where = {name: options[name] for name in ("fabric", "memory", "key")}
        seen = memory_find(actor, **where).version if options["seen"] is None else options["seen"]
        memory_delete(actor=actor, **where, version=seen, reason=options["reason"])
        if options["json"]:
            self.put({**where, "deleted": seen})
        else:
            self.stdout.write(f"{where['key']} is deleted: no run reads it any more, and its values are erased.")

    def _export(self, actor: Actor, options: dict[str, Any]) -> None:
        """The ledger as lines of JSON."""
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
    "list": (Command._list, "its memories, and what stands in each", ("fabric",)),
    "show": (Command._show, "what stands under a key", ("fabric", "memory", "key")),
    "history": (Command._history, "everything that was written under a key", ("fabric", "memory", "key")),
    "write": (Command._write, "write a value under a key", ("fabric", "memory", "key")),
    "delete": (Command._delete, "delete what stands under a key; its values are erased", ("fabric", "memory", "key")),
    "export": (Command._export, "the whole ledger, a line of JSON an entry", ("fabric",)),
}
"""By word: what does it, what it says, its places."""


def listed(one: MemoryView) -> JSON:
    """A memory as a program reads it."""
    return {
        "name": one.memory.name,
        "scope": one.memory.scope,
        "description": one.memory.description,
        "keys": one.count,
        "keys_max": one.memory.keys,
        "users": {verb: list(names) for verb, names in one.users},
        "entries": [told(entry) for entry in one.entries],
    }


def origin(one: Remembered) -> str:
    """Who wrote an entry, and when."""
    who = f"{one.agent} in run {one.run_id}" if one.run_id else one.actor
    return f"{who}, {instant(one.at)}"


def _value(one: Remembered) -> str:
    if one.value is None and (one.erased or getattr(one, "deleted", False)):
        return "erased" if one.erased else "-"
    text = json.dumps(one.value, ensure_ascii=False)
    return text if len(text) <= GLANCE_CHARS else f"{text[:GLANCE_CHARS]}…"


def _standing(actor: Actor, where: Mapping[str, str]) -> int:
    try:
        return memory_find(actor, **where).version
    except Refused as refused:
        if refused.field != "key":
            raise
        return 0


def _given(value: str | None, file: Path | None) -> JSON:
    text = value if file is None else read_text(file, most=VALUE_BYTES_MAX, what="a value")
    assert text is not None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = "--value" if file is None else str(file)
        message = f"{where} is no JSON ({error}); a text needs its quotes: '\"Paid until May\"'"
        raise Refused(message, code="invalid", field="value") from None
