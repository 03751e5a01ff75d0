"""The processes of MCP servers that are commands: shared by calls, and ended with whoever started them."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fabric.adapters.tools.mcp.stdio import WATCHER
from fabric.adapters.tools.outbound import SENDING, Sending
from fabric.adapters.tools.watcher import PASSED_OVER
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from tests.fabric.adapters.tools.asking import run
from tests.fabric.adapters.tools.mcp_worlds import (
    DONE,
    HEEDS_NOTHING,
    STARTS_A_CHILD,
    alive,
    call,
    children_of,
    gone,
    played,
    program,
    runner,
    saying,
    stdio,
    tool,
)


def test_many_calls_share_one_process():
    server = stdio()
    port = runner(server)

    async def scene():
        return await asyncio.gather(*(call(port, server, "whoami") for _ in range(20)))

    assert len({found.result for found in played(scene, port)}) == 1


def test_a_call_that_is_let_go_of_ends_no_other(tmp_path: Path):
    os.mkfifo(tmp_path / "never")
    server = stdio(variables=("MCP_NOTES",))
    port = runner(server, "MCP_NOTES", MCP_NOTES=str(tmp_path))

    async def scene():
        before = await call(port, server, "whoami")
        out = asyncio.create_task(call(port, server, "never"))
        await asyncio.to_thread((tmp_path / "never").read_text)
        out.cancel()
        with pytest.raises(asyncio.CancelledError):
            await out
        return before, await call(port, server, "whoami")

    before, after = played(scene, port)
    assert before.result == after.result


@pytest.mark.parametrize("how", ["end", "close"])
def test_the_process_and_what_it_started_end_with_the_port(how):
    server = program(STARTS_A_CHILD)
    port = runner(server)

    async def scene():
        pid = int((await call(port, server, "whoami")).result.split()[0])
        pids = [pid, *children_of(pid)]
        await port.end() if how == "end" else port.close()
        await asyncio.gather(*map(gone, pids))
        return pids

    assert len(played(scene, port)) == 2


def test_what_may_not_go_out_any_more_is_not_sent():
    server = saying(DONE)
    port = runner(server)
    sending = Sending(lambda: False)

    async def scene():
        before = await call(port, server, "act")
        SENDING.set(sending)
        return before, await call(port, server, "act")

    before, after = played(scene, port)
    assert before.result == "done"
    assert sending.stopped
    assert after.outcome is Outcome.REJECTED


KILLED = """
import asyncio, sys
sys.path.insert(0, '.')
from tests.fabric.adapters.tools.mcp_worlds import HEEDS_NOTHING, call, children_of, program, runner, stdio

async def main():
    server = program(HEEDS_NOTHING) if sys.argv[1] == 'heeds nothing' else stdio()
    port = runner(server)
    pid = int((await call(port, server, 'whoami')).result.split()[0])
    print(pid, *children_of(pid), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(("server", "count"), [("keeps to the protocol", 1), ("heeds nothing", 2)])
def test_a_server_ends_with_a_worker_that_is_killed(server, count):
    worker = subprocess.Popen([sys.executable, "-c", KILLED, server], stdout=subprocess.PIPE, text=True)
    with worker:
        pids = [int(one) for one in worker.stdout.readline().split()]
        watches = [os.pidfd_open(pid) for pid in pids]
        worker.kill()
        ended = [select.select([watch], [], [], 30)[0] for watch in watches]
        for watch in watches:
            os.close(watch)
    for pid in filter(alive, pids):  # What failed leaves nothing behind.
        os.kill(pid, signal.SIGKILL)
    assert (len(pids), all(ended)) == (count, True)


def watchers() -> list[int]:
    """Of this process, alive or unburied."""
    return [pid for pid in children_of(os.getpid()) if WATCHER in Path(f"/proc/{pid}/cmdline").read_text()]


@pytest.mark.parametrize("server", [stdio(), program(HEEDS_NOTHING), stdio(command="/no/such/program")])
def test_no_watcher_is_left_where_its_server_is_let_go_of(server):
    port = runner(server)

    async def scene():
        await call(port, server, "whoami")
        during = watchers()
        await port.end()
        return len(during), watchers()

    assert played(scene, port) == (int(server.command == sys.executable), [])


def test_what_a_terminal_sends_a_group_does_not_end_the_watch():
    watcher = subprocess.Popen([sys.executable, "-I", "-S", WATCHER], stdin=subprocess.PIPE, process_group=0)
    with watcher:
        until_ready(watcher.pid)
        for number in PASSED_OVER:
            os.kill(watcher.pid, number)
        beside = subprocess.Popen(["sleep", "1000"], process_group=watcher.pid)
        with beside:
            watcher.stdin.close()
            assert beside.wait(30) == -signal.SIGKILL
    assert watcher.returncode == -signal.SIGKILL


def test_a_watcher_that_leads_no_group_kills_nobody():
    with subprocess.Popen([sys.executable, "-I", "-S", WATCHER], stdin=subprocess.DEVNULL) as watcher:
        assert watcher.wait(30) == 0


def until_ready(pid: int) -> None:
    """Until it passes over what it is to pass over: the signals that a process ignores stand in its status."""
    wanted = sum(1 << (number - 1) for number in PASSED_OVER)
    status, until = Path(f"/proc/{pid}/status"), time.monotonic() + 30
    while time.monotonic() < until:
        found = next(line for line in status.read_text().splitlines() if line.startswith("SigIgn:"))
        if int(found.split()[1], 16) & wanted == wanted:
            return
        time.sleep(0.01)
    raise TimeoutError("the watcher did not begin")


def test_a_tool_without_a_server_is_the_author_s_to_mend():
    found = run(tool("add"), {})
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert found.message == "tool 'mine': no MCP server is declared for 'things/add'"
