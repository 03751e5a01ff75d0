"""A web server that is killed before and after each change that each request makes: the same request again has the same outcome, and what it asks for happens once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import httpx2
import psycopg
import pytest

from console.api.openapi import operations, schema
from console.launch.processes.data_directory import ROOT
from simulator.installation.database import temporary_database
from tests.chaos.faults.failpoints import FOLDER, ticket
from tests.chaos.web.places import CHANGES
from tests.console.launch.started_processes import PATIENCE_S, Lines

pytestmark = pytest.mark.slow

REQUESTS = {
    "startRun": ("nothing", "runs", {"fabric": "FABRIC", "text": "Why?"}, ("create", "wake")),
    "forkRun": ("ended", "runs/RUN/fork", {"seq": 1}, ("create", "wake")),
    "cancelRun": ("queued", "runs/RUN/cancel", {"reason": "no"}, ("put_input", "wake")),
    "terminateRun": ("queued", "runs/RUN/terminate", {"reason": "no"}, ("put_input", "wake")),
    "pauseRun": ("queued", "runs/RUN/pause", {}, ("put_input", "wake")),
    "writeContextOfRun": ("talking", "runs/RUN/context", {"set": {"k": 1}}, ("put_input", "wake")),
    "sayToRun": ("talking", "runs/RUN/say", {"text": "Mind the VAT."}, ("put_input", "wake")),
    "resumeRun": ("paused", "runs/RUN/resume", {}, ("put_input", "wake")),
    "decideReview": (
        "asking",
        "reviews/REVIEW/decision",
        {"verb": "approve", "digest": "DIGEST"},
        ("put_input", "wake"),
    ),
    "undoDecision": ("answered", "reviews/REVIEW/undo", {}, ("withdraw_input", "wake")),
    "continueDecision": ("answered", "reviews/REVIEW/continue", {}, ("hasten_input", "wake")),
    "decideReviews": (
        "asking",
        "reviews/decisions",
        {"verb": "approve", "items": [{"id": "REVIEW", "digest": "DIGEST"}]},
        ("put_input", "wake"),
    ),
    "closeFollowUp": ("follow_up", "reviews/REVIEW/close", {"note": "Again.", "fork_seq": 2}, ("create", "wake")),
}
"""By operation: what it is about, where it is asked, with which body, and the changes that it makes on its way."""
EACH = [
    (name, f"{change}.{side}") for name, one in REQUESTS.items() for change in one[3] for side in ("before", "after")
]
_numbers = count(1)


READS = {
    *("exportAuditRecords", "exportRun", "exportMemories", "exportDecisions", "checkScenario", "lintFabric"),
    *("revealReview", "revealRunEvent", "revealMemory"),
}
"""POSTs since they are told in the audit stream; of what they export or reveal they change nothing, and each export or look is one of its own."""
AT_ONCE = {
    *("openBreaker", "resetBreaker", "writeMemory", "deleteMemory", "resendNotification"),
    *("askForDrills", "askForStaleDrills", "stopDrills", "pullDrillStop", "releaseDrillStop"),
    *("createDrillSchedule", "changeDrillSchedule", "pauseDrillSchedule", "resumeDrillSchedule", "deleteDrillSchedule"),
    *("runDrillSchedule", "importScenario", "playScenario", "captureRun"),
    *("publishFabric", "revertFabric", "importDraft"),
    *("storeModelKey", "deleteModelKey", "setPolicy"),
    *("openChangeRequest", "approveChangeRequest", "rejectChangeRequest", "withdrawChangeRequest"),
    *("placeHold", "liftHold"),
    *("setMemberRoles", "removeMember", "createServiceAccount", "inviteMember", "revokeInvitation"),
    *("createToken", "revokeToken", "setMyMail"),
}
"""Whole in one transaction of the web server's own, and conditional on what was seen: a generation, a version, drills that wait or run. The same
again is refused (409, 404), and says so; a fabric is known by its content, so that the same again changes nothing; roles are those that were given, and a second invitation is seen on the page of members."""
CALLS = {"testModel"}
"""A call of a model, outside any run: what it may cost at most is committed before it goes out, and stays as what is known where no process is left to
write down what it did cost. The same again is refused while it may be under way (409). See tests/fabric/services/models/test_test_calls.py."""
IN_HAND = {"claimReview", "claimNextReview", "beatReview", "releaseReview", "reassignReview"}
"""Leases, each taken or let go in one transaction of the web server's own, and gone by themselves: what is claimed again is kept for longer, what
was let go is let go, and a reviewer who takes the next review twice has two."""


def test_every_operation_that_changes_something_is_here():
    posted = {operation["operationId"] for _, verb, operation in operations(schema()) if verb == "POST"}
    assert posted == set(REQUESTS) | READS | AT_ONCE | IN_HAND | CALLS
    assert {change for *_, changes in REQUESTS.values() for change in changes} == set(CHANGES)


class Web:
    """A web server that can be killed, and a caller who makes what requests are about."""

    def __init__(self, environment, stack):
        self._environment = environment
        self.folder = Path(environment[FOLDER])
        self._server = self._started(stack, "tests.chaos.web.server", FABRIC_FAULTS="tests.chaos.web.places.wrap")
        self._maker = self._started(stack, "tests.chaos.web.subjects")
        self._said, self._made = Lines(self._server.stdout.fileno()), Lines(self._maker.stdout.fileno())
        port = int(self._said.next())
        about = json.loads(self._made.next())
        self._fabric = about["fabric"]
        self._client = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}/api/v1/",
            headers={"Authorization": f"Bearer {about['token']}"},
            timeout=PATIENCE_S,
        )
        stack.callback(self._client.close)

    def _started(self, stack, module, **more):
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={**self._environment, **more},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        stack.callback(process.wait)
        stack.callback(os.killpg, process.pid, signal.SIGKILL)
        return process

    def asker(self, operation):
        """One request of its own about something of its own, and the run that it is about: its caller asks the same again."""
        kind, path, body, _ = REQUESTS[operation]
        self._maker.stdin.write(f"{kind}\n".encode())
        self._maker.stdin.flush()
        about = json.loads(self._made.next())
        key = f"key-{next(_numbers)}"
        names = {"FABRIC": self._fabric, **{name.upper(): value for name, value in about.items()}}
        path = "/".join(names.get(part, part) for part in path.split("/"))
        body = filled(body, names)
        return lambda: self._client.post(path, json=body, headers={"Idempotency-Key": key}), about, key

    def killed(self):
        """Waits until the server was killed."""
        assert int(self._said.next()) == -signal.SIGKILL

    def effects(self, about, key):
        """Return what stands of it: new runs under the key or out of the run it is about, and each input and each line of the audit stream of the run it is about."""
        run = about.get("run", "")
        runs = self._ask(f"SELECT id FROM fabric_run WHERE start_key = '{key}' OR origin_run_id = '{run}'")
        names = [run_id for (run_id,) in runs] + [run]
        of_them = ", ".join(f"'{name}'" for name in names)
        inputs = self._ask(f"SELECT input_id, consumed_seq IS NULL FROM fabric_inbox WHERE run_id IN ({of_them})")
        audit = self._ask(f"SELECT kind FROM fabric_audit WHERE subject IN ({of_them})")
        return len(runs), sorted((one.partition(":")[0], bool(open_)) for one, open_ in inputs), sorted(audit)

    def _ask(self, statement):
        if url := self._environment.get("DATABASE_URL"):
            with psycopg.connect(url) as connection:
                return connection.execute(statement.encode()).fetchall()
        with closing(sqlite3.connect(Path(self._environment["FABRIC_DATA"]) / "fabric.sqlite3")) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def web(request, tmp_path_factory):
    with temporary_database(request.param) as environment, ExitStack() as stack:
        yield Web({**environment, FOLDER: str(tmp_path_factory.mktemp("tickets"))}, stack)


@pytest.fixture(scope="module")
def undisturbed(web):
    """By operation: its answer, and what stands afterwards, where nothing came in between."""
    found = {}

    def of(operation):
        if operation not in found:
            ask, about, key = web.asker(operation)
            found[operation] = (ask(), web.effects(about, key))
        return found[operation]

    return of


def filled(body, names):
    """A body with what it is about in place of its names."""
    if isinstance(body, dict):
        return {name: filled(value, names) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, names) for value in body]
    return names.get(body, body)


def told(answer):
    """Return what an answer says, but for whether this was the request that did it."""
    return unrecorded(answer.json())


def unrecorded(said):
    """Return what is said, without that."""
    if isinstance(said, dict):
        return {name: unrecorded(value) for name, value in said.items() if name != "recorded"}
    return [unrecorded(one) for one in said] if isinstance(said, list) else said


@pytest.mark.parametrize(("operation", "place"), EACH, ids=lambda one: one)
def test_a_request_whose_server_died_has_the_same_outcome_when_it_is_sent_again(web, undisturbed, operation, place):
    first, effects = undisturbed(operation)
    assert first.is_success, first.text
    ask, about, key = web.asker(operation)
    ticket(web.folder, place).touch()
    with pytest.raises(httpx2.RemoteProtocolError):
        ask()
    web.killed()
    again, once_more = ask(), ask()
    assert (again.status_code, once_more.status_code) in (
        (first.status_code, first.status_code),
        (first.status_code, 200),  # A run was made by this one, or by the one before.
        (200, 200),
    )
    assert told(again) == told(once_more)
    assert set(told(again)) == set(told(first))
    assert web.effects(about, key) == effects
