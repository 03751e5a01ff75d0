"""Golden journals: what a release of the program wrote, kept for good, so that every later version is seen to read it.

``python -m tests.data.golden NAME`` writes ``tests/data/journals/NAME-format-N.ndjson.gz``, N being ``flow.FORMAT``, from simulated runs, until
every kind of event that they can lead to is in it. A file of a released format is never made anew: a later version of the program adds one.

A line is a run: what its row knows (``run_id``, ``tier``, ``seed``), its rows in order with their bytes in base64, the inputs it took, what the
version that wrote it said of it (``columns``: the run row after the last event), and the fabric it ran (``spec``), so that its decisions can be
derived again.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

from fabric.core.events.envelope import KINDS, JournalRow, split_row
from fabric.core.events.inputs import INBOX
from fabric.core.values.flow import FORMAT
from fabric.core.values.units import JSON
from fabric.runtime.journal import projection
from fabric.runtime.ports.journal import StoredRow
from simulator.swarm import setups as swarm
from simulator.world.world import World

RELEASED: frozenset[int] = frozenset({1})
"""The formats that a release writes or wrote. Their shapes and files never change."""
DIRECTORY = Path(__file__).with_name("journals")
PATIENCE = 1_000
"""Seeds without a new find after which the search for rare kinds of event ends."""
EACH = 3
"""Runs that hold a kind, at least."""
BROUGHT = {
    "attempt_failed": ("shut", "partial", "input_tokens"),
    "model_answered": ("finish", "parts", "usage_problem"),
    "model_changed": ("left_out",),
    "call_edited": ("proposed_tool",),
    "child_answered": ("released", "changed_world"),
    "run_forked": ("topology",),
    "speaker_chosen": ("transition", "level", "crossed", "close_reason"),
    "step_failed": ("routed",),
    "tool_answered": ("hands_to", "ends", "handled"),
    "review_opened": ("weighed", "approvals", "barred", "onward_to", "score", "item=follow_up"),
    "review_decided": ("roles", "agreed", "proposed_by"),
}
"""By kind, the fields, or ``field=value``, that are looked for beside the kind, since few rows have them."""
NEVER = frozenset({"model_changed.left_out"})
"""Parts of events that no simulated run leads to."""


def files() -> list[Path]:
    """Every golden file, oldest first by name."""
    return sorted(DIRECTORY.glob("*.ndjson.gz"))


def format_of(path: Path) -> int:
    """The format that a golden file's version of the program wrote."""
    return int(path.name.partition(".")[0].rpartition("-format-")[2])


def read(path: Path) -> Iterator[JSON]:
    """The runs of a golden file; ``rows`` as stored rows."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            run["rows"] = [_stored(row) for row in run["rows"]]
            run["inputs"] = [base64.b64decode(body) for body in run["inputs"]]
            yield run


def _stored(row: JSON) -> StoredRow:
    payload = None if row["payload"] is None else base64.b64decode(row["payload"])
    seq, kind, version = row["seq"], row["kind"], row["version"]
    return StoredRow(
        seq, kind, version, base64.b64decode(row["header"]), payload, bytes.fromhex(row["payload_hash"]), bytes.fromhex(row["hash"])
    )  # fmt: skip


def shown(row: JournalRow | StoredRow) -> Iterator[str]:
    """Yield what a row shows: the kinds of its events, and fields of them that are looked for."""
    for _, kind, _, header in split_row(row.seq, row.kind, row.version, row.header):
        yield kind
        fields_of = BROUGHT.get(kind, ())
        held = json.loads(header)["d"] if fields_of else {}
        for field in fields_of:
            name, _, value = field.partition("=")
            if name in held and value in ("", held[name]):
                yield f"{kind}.{field}"


def looked_for() -> list[str]:
    """Everything that a file has to show: kinds, and fields of kinds."""
    return [
        one
        for one in (*KINDS, *(f"{kind}.{field}" for kind, fields in BROUGHT.items() for field in fields))
        if one not in NEVER
    ]


def write(name: str) -> Counter[str]:
    """Simulates runs, keeps those that show something new, writes the file; how many of the kept runs hold each kind."""
    held: Counter[str] = Counter()
    path = DIRECTORY / f"{name}-format-{FORMAT}.ndjson.gz"
    if FORMAT in RELEASED and path.exists():
        raise SystemExit(f"{path.name} is of a released format, and is never made anew: choose another name")
    wanted = looked_for()
    kept: list[JSON] = []
    last = 0
    for seed in count():
        if seed - last > PATIENCE or all(held[kind] >= EACH for kind in wanted):
            break
        world = World(swarm.draw(seed))
        world.run()
        assert not world.watch.violations, world.watch.violations
        for run in world.watch.runs():
            rows = world.store.rows(run.id)
            kinds = {each for row in rows for each in shown(row)}
            if world.store.columns(run.id) != projection.columns(run):
                continue  # Ended where it stood by a program that could not read all of it.
            if any(held[kind] < EACH for kind in kinds):
                held.update(kinds)
                last = seed
                kept.append(_run(world, run, rows))
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        for one in kept:
            file.write(json.dumps(one, sort_keys=True).encode() + b"\n")
    return held


def _run(world: World, run: Any, rows: Any) -> JSON:
    def text(raw: bytes) -> str:
        return base64.b64encode(raw).decode()

    columns = world.store.columns(run.id)
    names = [field.name for field in fields(columns)]
    given = world.watch.inputs(run.id)
    return {
        "run_id": run.id,
        "tier": run.tier,
        "seed": run.seed,
        "columns": {name: getattr(columns, name) for name in names},
        "spec": world.setup.fabric.compiled.spec.model_dump(mode="json", by_alias=True),
        "inputs": [text(INBOX.dump_json(one)) for one in given],
        "rows": [
            {
                "seq": row.seq,
                "kind": row.kind,
                "version": row.version,
                "header": text(row.header),
                "payload": None if row.payload is None else text(row.payload),
                "payload_hash": row.payload_hash.hex(),
                "hash": row.hash.hex(),
            }
            for row in rows
        ],
    }


if __name__ == "__main__":
    found = write(sys.argv[1])
    for kind, runs in sorted(found.items() | {(kind, 0) for kind in KINDS if kind not in found}):
        print(f"{runs:4d} {kind}")
