"""An installation of its own for chaos: database, broker, workers behind a proxy each, a starter, and the outside with its ledger."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from simulator.booking import Entry, entries
from simulator.installation.database import ROOT, clean_environment, copy_sqlite
from simulator.installation.workers import DatabaseAway
from tests.chaos.faults.failpoints import FOLDER
from tests.chaos.judging.judge import Kill
from tests.chaos.processes.effects import DELAY_MAX_S, DELAY_MIN_S
from tests.chaos.processes.handles import Nursery, Slot, Starter, Talking, now_us, own_death
from tests.chaos.rows import ChaosRows
from tests.chaos.servers.clusters import cluster
from tests.chaos.servers.local import Broker, PostgresqlServer, RedisServer, tmpfs
from tests.chaos.servers.proxy import Proxies, Proxy
from tests.chaos.servers.rabbitmq import RabbitServer

DISK_MB = 1_024
CANCEL = "cancel-"
"""Runs whose start keys begin with it are cancelled soon."""
CANCEL_WITHIN_S = 8.0
RESTART_S = 90.0
FAULTS = "tests.chaos.faults.failpoints.wrap"
RUN_CAP_USD_MICROS = 2_000_000
SHARED_CAP_USD_MICROS = 2_000_000_000
"""What all runs may spend in any hour, and those of a session altogether: never reached, since a refused run ends as no campaign wants."""

FABRIC = """
name: chaos
title: Chaos
tiers: {default: batch, allowed: [batch]}
models:
  - {name: outside, price: {input_usd_per_mtok: "1", output_usd_per_mtok: "2"}}
tools:
  - {name: read_document}
  - name: book_room
    kind: http
    effect: mutating
    description: Books a room.
    target: http://AUTHORITY/bookings
    compensation: cancel_booking
    reconcile: find_booking
    timeout_s: 10
    parameters: {type: object, properties: {kind: {type: string}}, required: [kind]}
  - name: send_notice
    kind: http
    effect: irreversible
    description: Sends a notice that stays sent.
    target: http://AUTHORITY/notices
    timeout_s: 10
    parameters: {type: object}
  - name: cancel_booking
    kind: http
    effect: idempotent
    description: Cancels a booking.
    target: http://AUTHORITY/bookings/cancel
    timeout_s: 10
    parameters: {type: object}
  - name: find_booking
    kind: http
    effect: read_only
    description: Says whether something was booked under a key.
    target: http://AUTHORITY/bookings/find
    timeout_s: 10
    parameters: {type: object}
memories:
  - {name: desk, scope: fabric, description: What was asked for last.}
agents:
  - {name: planner, instructions: Plan., model: outside}
  - {name: reader, instructions: Read., model: outside, tools: [read_document]}
  - {name: booker, instructions: Book., model: outside, tools: [book_room, send_notice, memory_write_desk]}
  - {name: lead, instructions: Merge., model: outside}
topology: {planner: planner, workers: [reader, booker], aggregator: lead}
policy:
  budget: {run_usd_micros: CAP, fabric_hour_usd_micros: SHARED, session_usd_micros: CAP}
  deadlines: {batch: {call_s: 20, stage_s: 3600, run_s: 86400}}
  retry: {base_s: 0.2, cap_s: 2}
reviewers: [owner]
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts to put up. ``broker``: ``files`` (with SQLite), ``redis`` or ``rabbitmq``."""

    db: str = "sqlite"
    broker: str = "files"
    workers: int = 1
    small_disk: bool = False
    """Whether the database lies on a file system that can be filled up."""
    answer_s: tuple[float, float] = (DELAY_MIN_S, DELAY_MAX_S)
    """How long the outside takes to answer, from and to."""
    before: Path | None = None
    """A checkout of an earlier version that it begins with; None: this one."""


@dataclass(slots=True, eq=False)
class Installation:
    """An installation that is up."""

    plan: Plan
    folder: Path
    environment: dict[str, str]
    rows: ChaosRows
    server: PostgresqlServer | None = None
    broker: Broker | None = None
    proxies: list[Proxy] = field(default_factory=list)
    """One a worker, between it and PostgreSQL."""
    disk: Path | None = None
    """The file system that can be filled up."""
    slots: list[Slot] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    parted: list[Kill] = field(default_factory=list)
    """Workers that lived on and were parted from what they owned, each with the strike's name."""
    crashes: list[str] = field(default_factory=list)
    """Ends of workers that no strike intended."""
    meant: dict[int, int] = field(default_factory=dict)
    """Workers that were sent SIGKILL, and when."""
    restarted: set[int] = field(default_factory=set)
    """Workers that were told to stop."""
    nursery: Nursery | None = None
    """Where the starter comes from, and the workers until an upgrade."""
    _newer: list[Nursery] = field(default_factory=list)
    _starter: Starter | None = None
    _asked: dict[str, str] = field(default_factory=dict)
    """Keys of starts that were not confirmed yet."""
    runs: dict[str, str] = field(default_factory=dict)
    """Confirmed runs by start key."""
    cancelled: set[str] = field(default_factory=set)
    """Runs that were to be cancelled. One whose end came first, or whose starter died, was not."""
    _lock: threading.Condition = field(default_factory=threading.Condition)

    # -- starting runs ------------------------------------------------------------------------------------------------

    def start(self, key: str) -> None:
        """Asks for a run under this key, again and again until it is confirmed."""
        with self._lock:
            self._asked[key] = ""
            starter = self._starter
        if starter is not None:
            starter.tell({"start": key})

    def unconfirmed(self) -> int:
        """Starts that no server has confirmed yet."""
        with self._lock:
            return len(self._asked)

    def cancel(self, run: str) -> None:
        """Asks for a run to be cancelled."""
        self.cancelled.add(run)
        if self._starter is not None:
            self._starter.tell({"cancel": run})

    def upgrade(self) -> None:
        """Brings the tables up to date beside processes of the earlier version. Processes that start from now on are of this one."""
        nursery = Nursery(self.environment, self.folder)
        self._newer.append(nursery)
        nursery.manage("django", "migrate", "--verbosity", "0")
        for slot in self.slots:
            slot.move(nursery)

    def approve(self, review: str) -> None:
        """Asks for a review to be answered with an approval."""
        if self._starter is not None:
            self._starter.tell({"approve": review})

    def put_up_starter(self) -> None:
        """Starts the starter, or another one in its place, and asks it for what was not confirmed."""
        assert self.nursery is not None
        self._starter = Starter(self.nursery, on_line=self._starter_said, on_end=self.put_up_starter)
        self._starter.tell({"publish": _fabric(self.environment["FABRIC_ALLOWED_HOSTS"])})
        with self._lock:
            waiting = list(self._asked)
        for key in waiting:
            self._starter.tell({"start": key})

    def _starter_said(self, said: dict[str, Any]) -> None:
        key = said["key"]
        with self._lock:
            if "run" in said:
                self._asked.pop(key, None)
                self.runs[key] = said["run"]
                if key.startswith(CANCEL):
                    within = Random(key).uniform(0.0, CANCEL_WITHIN_S)
                    threading.Timer(within, self.cancel, (said["run"],)).start()
                self._lock.notify_all()
                return
            again = key in self._asked
        if again and self._starter is not None:
            threading.Timer(0.5, self._starter.tell, ({"start": key},)).start()

    # -- deaths -------------------------------------------------------------------------------------------------------

    def owns(self, slot: Slot) -> bool:
        """Return True if a slot's worker owns live runs. True where the database cannot be asked."""
        try:
            return bool(slot.pid and self.rows.owned_by(slot.pid, timeout_s=0.0))
        except DatabaseAway:
            return True

    def parts(self, strike: str, *slots: Slot) -> None:
        """Notes that workers are about to lose their runs without dying. What cannot be asked for is left out."""
        for slot in slots:
            with suppress(DatabaseAway):
                runs = tuple(self.rows.owned_by(slot.pid, timeout_s=0.0)) if slot.pid else ()
                self.parted.append(Kill(now_us(), slot.pid, strike, runs))

    def kill(self, slot: Slot) -> None:
        """Sends SIGKILL to a slot's worker."""
        self.meant[slot.pid] = now_us()
        slot.signal(signal.SIGKILL)

    def restart(self, slot: Slot) -> None:
        """Tells a slot's worker to stop, and waits until another one is there."""
        pid = slot.pid
        self.restarted.add(pid)
        slot.signal(signal.SIGTERM)
        slot.wait_for_another(pid, RESTART_S)

    def died(self, slot: Slot, pid: int, status: int) -> None:
        """Finds out what a worker's death was, and which runs it leaves behind. Before another one takes its place."""
        told, meant = pid in self.restarted, self.meant.pop(pid, None)
        self.restarted.discard(pid)  # Another process may be given the same number.
        if told and status == 0:
            return
        if told and status == -signal.SIGTERM and not self.rows.owned_by(pid):
            return  # It had hardly been born, and did not listen for the signal yet.
        kill = own_death(self.folder, pid, [kill.at for kill in self.kills if kill.pid == pid])
        if kill is None and meant is None:
            self.crashes.append(f"worker {slot.name} (process {pid}) ended by itself with {status}")
            return
        kill = kill or Kill(meant or 0, pid, "random", ())
        self.kills.append(replace(kill, runs=tuple(self.rows.owned_by(pid))))

    # -- the outside --------------------------------------------------------------------------------------------------

    def ledger(self) -> list[Entry]:
        """Return what was done outside so far."""
        file = self.folder / "ledger.ndjson"
        return entries(file) if file.exists() else []

    def said(self, file: str) -> list[dict[str, Any]]:
        """The whole lines of a file of the failpoints."""
        path = self.folder / file
        text = path.read_bytes() if path.exists() else b""
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def heal(self) -> None:
        """Makes every proxy pass again."""
        for proxy in self.proxies:
            proxy.heal()

    def stop(self) -> None:
        """Ends the workers, the starter and the nursery."""
        if self._starter is not None:
            self._starter.stop()
        for slot in self.slots:
            slot.stop()
        for nursery in filter(None, (self.nursery, *self._newer)):
            nursery.stop()  # With each process that was born that moment, or did not end in time.


def _fabric(authority: str) -> str:
    meant = {"AUTHORITY": authority, "CAP": RUN_CAP_USD_MICROS, "SHARED": SHARED_CAP_USD_MICROS}
    source = FABRIC
    for word, what in meant.items():
        source = source.replace(word, str(what))
    return source


@contextmanager
def installed(plan: Plan) -> Iterator[Installation]:
    """Puts everything up, and takes it down again. ServerMissing where a server cannot be had."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(TemporaryDirectory(prefix="fabric-chaos-", ignore_cleanup_errors=True)))
        base.chmod(0o711)  # PostgreSQL's user must come through.
        folders = {name: base / name for name in ("data", "chaos", "postgresql", "broker", "disk")}
        for folder in folders.values():
            folder.mkdir()
        if plan.small_disk:
            stack.enter_context(tmpfs(folders["disk"], DISK_MB))
        environment = _environment(folders, plan)
        environment |= _outside(stack, folders["chaos"], environment, plan.answer_s)
        server, broker = _database(stack, plan, folders), _broker(stack, plan, folders)
        if broker is not None:
            environment["CELERY_BROKER_URL"] = broker.url
        if server is not None:
            environment["DATABASE_URL"] = server.url()
        else:
            copy_sqlite(clean_environment(), Path(environment["FABRIC_DATA"]))
        nursery = Nursery(environment, folders["chaos"], (plan.before or ROOT).resolve())
        stack.callback(nursery.stop)
        nursery.manage("prepare", "--json")
        rows = ChaosRows(server.url() if server is not None else Path(environment["FABRIC_DATA"]), keep=True)
        stack.callback(rows.close)
        rows.watch_writes()
        made = Installation(plan, folders["chaos"], environment, rows, server, broker, nursery=nursery)
        made.disk = folders["disk"] if plan.small_disk else None
        _put_up_workers(stack, made)
        made.put_up_starter()
        yield made


def _environment(folders: Mapping[str, Path], plan: Plan) -> dict[str, str]:
    data = folders["disk"] / "data" if plan.small_disk and plan.db == "sqlite" else folders["data"]
    return clean_environment() | {
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "FABRIC_DATA": str(data),
        "FABRIC_FAULTS": FAULTS,
        FOLDER: str(folders["chaos"]),
    }


def _outside(
    stack: ExitStack, folder: Path, environment: Mapping[str, str], answer_s: tuple[float, float]
) -> dict[str, str]:
    said: list[str] = []
    told = threading.Event()

    def on_line(line: Any) -> None:
        said.append(line["authority"])
        told.set()

    outside = Talking(
        "tests.chaos.processes.effects",
        "--ledger",
        str(folder / "ledger.ndjson"),
        "--delay",
        *map(str, answer_s),
        environment=environment,
        log=folder / "effects.log",
        on_line=on_line,
    )
    stack.callback(outside.stop)
    if not told.wait(60):
        raise TimeoutError("the outside does not begin to serve")
    return {"FABRIC_MODEL_URL": f"http://{said[0]}/v1", "FABRIC_MODEL": "scripted", "FABRIC_ALLOWED_HOSTS": said[0]}


def _database(stack: ExitStack, plan: Plan, folders: Mapping[str, Path]) -> PostgresqlServer | None:
    if plan.db != "postgresql":
        return None
    tablespace = folders["disk"] / "tables" if plan.small_disk else None
    if tablespace is not None:
        tablespace.mkdir()
    server = PostgresqlServer(folders["postgresql"], tablespace=tablespace)
    stack.callback(server.stop)
    server.create(like=cluster(clean_environment()) if plan.before is None else None)
    return server


def _broker(stack: ExitStack, plan: Plan, folders: Mapping[str, Path]) -> Broker | None:
    if plan.broker == "files":
        return None
    made = RedisServer(folders["broker"]) if plan.broker == "redis" else RabbitServer(folders["broker"])
    stack.callback(made.close)
    made.start()
    return made


def _put_up_workers(stack: ExitStack, made: Installation) -> None:
    proxies = stack.enter_context(Proxies()) if made.server is not None else None
    stack.callback(made.stop)  # Before the proxies go.
    assert made.nursery is not None
    for number in range(made.plan.workers):
        address = None
        if proxies is not None and made.server is not None:
            proxy = proxies.to(made.server.port)
            made.proxies.append(proxy)
            address = made.server.url(port=proxy.port)
        made.slots.append(Slot(f"w{number}", made.nursery, made.folder, made.died, database=address))
