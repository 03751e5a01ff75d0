"""`manage.py up` itself, with runs under way: a worker that is killed, a Ctrl-C in the middle of a call. No run is lost."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from console.launch.supervisor import REPEAT_S
from simulator.booking import entries
from simulator.installation.database import ROOT, clean_environment, copy_sqlite
from simulator.installation.workers import Site, wait_until
from tests.chaos.faults.failpoints import FOLDER
from tests.chaos.judging.judge import VERDICTS, Case
from tests.chaos.mishaps import providers as mishaps
from tests.chaos.rows import ChaosRows, facts_by_run, start_runs, states
from tests.chaos.site import folder_of
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.servers.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path, request):
    """An installation whose scripted agents are the mishap that the test is marked with; nothing runs yet."""
    chaos = tmp_path / "chaos"
    chaos.mkdir()
    copy_sqlite(clean_environment(), tmp_path / "data")
    provider = f"scripted=tests.chaos.mishaps.providers.{request.param}"
    named = {"FABRIC_DATA": str(tmp_path / "data"), FOLDER: str(chaos), "FABRIC_PROVIDERS": provider}
    return Site(
        clean_environment()
        | {"DJANGO_SETTINGS_MODULE": "tests.settings_running", "FABRIC_PORT": str(free_port())}
        | named
    )


@contextmanager
def up(site):
    """Run `up`; yield the process, its login link and what it says on standard error."""
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser"]
    with started(command, env=site.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        said = Lines(process.stdout.fileno())
        said.until("Fabric Flow runs at ")
        yield process, said.until("/login/").strip(), Lines(process.stderr.fileno())


def judged(site):
    """Return what is wrong, in sentences; and how many attempts were interrupted."""
    journals = facts_by_run(site)
    found = Case(
        ledger=entries(folder_of(site) / mishaps.LEDGER),
        journals=journals,
        accepted=frozenset(journals),
        states=states(site),
        costs=ChaosRows.from_environment(site.environment).costs(),
    )
    assert found.ledger
    interrupted = sum(fact["kind"] == "attempt_interrupted" for facts in journals.values() for fact in facts)
    return [sentence for verdict in VERDICTS.values() for sentence in verdict(found)], interrupted


def all_completed(site):
    return set(states(site).values()) == {"completed"}


@pytest.mark.parametrize("site", ["DyingProvider"], indirect=True)
def test_up_restarts_a_killed_worker_and_the_runs_go_on(site):
    runs = 5
    with up(site) as (process, _, said):
        (folder_of(site) / mishaps.KILL).touch()
        start_runs(site, runs)
        said.until("The worker was killed (signal 9")
        wait_until(lambda: all_completed(site), site, PATIENCE_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    wrong, interrupted = judged(site)
    assert wrong == []
    assert interrupted  # The worker was killed in the middle of a call.
    assert len(states(site)) == runs
    assert not (folder_of(site) / mishaps.KILL).exists()
    assert site.manage("admin", "replay", "--all", "--json")["differences"] == 0


@pytest.mark.parametrize("site", ["HangingProvider"], indirect=True)
def test_ctrl_c_twice_with_a_call_out_and_a_page_open_ends_at_once_and_the_run_goes_on_at_the_next_start(site):
    (folder_of(site) / mishaps.HANG).touch()
    os.mkfifo(folder_of(site) / mishaps.ASKED)
    with up(site) as (process, link, said):
        asked = os.open(folder_of(site) / mishaps.ASKED, os.O_RDWR)
        start_runs(site, 1)
        assert Lines(asked).next() == "asked"
        os.close(asked)
        (run,) = states(site)
        with page(link, run) as socket:
            assert json.loads(socket.recv(PATIENCE_S))["seq"] > 0
            process.send_signal(signal.SIGINT)
            said.until("Stopping: ")
            with pytest.raises(ConnectionClosed):
                closed(socket)
        assert ended_by(process, signal.SIGINT) == 0
    assert not all_completed(site)
    (folder_of(site) / mishaps.HANG).unlink()
    with up(site) as (process, _, _):
        wait_until(lambda: all_completed(site), site, PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert judged(site) == ([], 1)


def closed(socket):
    """Take in what comes until the server closes it, which raises ConnectionClosed."""
    while True:
        socket.recv(PATIENCE_S)


def ended_by(process, number):
    """Send the signal until the process has ended: one that follows another too soon counts as the same."""
    while True:
        process.send_signal(number)
        try:
            return process.wait(2 * REPEAT_S)
        except subprocess.TimeoutExpired:
            continue


def page(link, run):
    """The socket of a run's page, for a member who has signed in by the link."""
    place = urlsplit(link)
    origin = f"{place.scheme}://{place.netloc}"
    shown, cookies = ask(place, "GET")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', shown)[1]
    fields = {"csrfmiddlewaretoken": token, "token": place.fragment}
    headers = {"Cookie": cookies, "Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
    _, cookies = ask(place, "POST", body=urlencode(fields), headers=headers)
    address = f"ws://{place.netloc}/live/runs/{run}?after=0&panels="
    return connect(address, origin=origin, additional_headers={"Cookie": cookies})


def ask(place, method, **more):
    connection = http.client.HTTPConnection(place.netloc, timeout=PATIENCE_S)
    connection.request(method, place.path, **more)
    answer = connection.getresponse()
    body = answer.read().decode()
    set_cookies = [value for name, value in answer.getheaders() if name.lower() == "set-cookie"]
    connection.close()
    return body, "; ".join(value.partition(";")[0] for value in set_cookies)
