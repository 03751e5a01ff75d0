"""The journal writer meets trouble on real databases: a wire that loses what crosses it, a stream of batches, and what stands afterwards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal

from fabric.runtime.ports.journal import BatchFate, JournalStore
from fabric.stores.writer import JournalWriter
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.stores.journal_worlds import Journal
from tests.fabric.stores.writer.writer_scenes import WAIT_S, Outcomes

Lost = Literal["request", "answer", "connection"]
"""The request, of which the server gets the half; its answer, after the server has done it; or the connection, while the server does it."""


class Wire:
    """A port that leads to a server's, and loses on purpose what it was told to lose: once, by the bytes that the request has in it."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._marker, self._lost = b"", "answer"
        self.losses = threading.Semaphore(0)
        """One for each thing that was lost."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, what: Lost, marker: str) -> None:
        """Of the next request with these bytes in it."""
        self._marker, self._lost = marker.encode(), what

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                deaf = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, deaf), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, deaf), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        """``deaf``: the next answer on this connection is lost."""
        with suppress(OSError):
            while chunk := client.recv(1 << 20):
                if not (self._marker and self._marker in chunk):
                    server.sendall(chunk)
                    continue
                self._marker = b""
                if self._lost == "answer":
                    deaf.set()
                server.sendall(chunk[: len(chunk) // 2] if self._lost == "request" else chunk)
                if self._lost != "answer":
                    self.losses.release()
                    break
        _cut(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with suppress(OSError):
            while chunk := server.recv(1 << 20):
                if deaf.is_set():
                    self.losses.release()
                    break
                client.sendall(chunk)
        _cut(client, server)


def _cut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Stream:
    """One batch after another of each run, the next one when the one before was written: what a process under load hands to its writer."""

    def __init__(self, writer: JournalWriter, journals: Iterable[Journal]) -> None:
        self._writer = writer
        self.journals = list(journals)
        self.acknowledged: dict[str, int] = {journal.run_id: 0 for journal in self.journals}
        """How far each run's journal was said to reach."""
        self.odd: list[object] = []
        """Whatever was no commit."""
        self._changed = threading.Condition()
        self._ending = False
        self._under_way = 0

    def start(self) -> None:
        for journal in self.journals:
            self._next(journal)

    def end(self) -> None:
        """Hands nothing more over, and waits for the fate of what was handed over."""
        self._ending = True
        self._until(lambda: self._under_way == 0)

    def further(self, batches: int = 3) -> None:
        """Waits until each run got on by so many batches."""
        wanted = {run_id: seq + batches for run_id, seq in self.acknowledged.items()}
        self._until(lambda: all(self.acknowledged[run_id] >= seq for run_id, seq in wanted.items()))

    def _until(self, true: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: true() or bool(self.odd), 3 * WAIT_S), self.acknowledged
        assert self.odd == []

    def _next(self, journal: Journal) -> None:
        with self._changed:
            self._under_way += 1
        batch = journal.batch()

        def on_done(outcome: BatchFate | Exception) -> None:
            with self._changed:
                self._under_way -= 1
                if outcome is BatchFate.COMMITTED:
                    self.acknowledged[journal.run_id] = batch.new_seq
                else:
                    self.odd.append(outcome)
                self._changed.notify_all()
            if not self._ending and outcome is BatchFate.COMMITTED:
                self._next(journal)

        self._writer.submit(batch, on_done)


def stands(store: JournalStore, journals: Iterable[Journal]) -> None:
    """Each run's journal is what its owner wrote, event by event, no more and no less."""
    for journal in journals:
        found = [(row.seq, bytes(row.hash)) for row in store.journal(journal.run_id)]
        assert found == [(row.seq, row.hash) for row in journal.written]


class Pen:
    """A writer over a store, with what came of what it was given."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.outcomes = Outcomes()
        self.writer = JournalWriter(store, NullNudge())

    def __enter__(self) -> Pen:
        self.writer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        assert self.writer.close(WAIT_S)

    def write(self, journals: Iterable[Journal], **changed: Any) -> None:
        """Hands over the next batch of each, together."""
        ready = [(journal.batch(**changed), self.outcomes.of(journal.run_id)) for journal in journals]
        self.writer.submit_all(ready)
