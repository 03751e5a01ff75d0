"""The processes of MCP servers that are commands: shared by calls, and ended with the worker that started them."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from console.launch.processes import keeper as child
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import SENDING, SendPermission
from tests.fabric.tools.asking import run
from tests.fabric.tools.mcp.worlds import (
    DONE,
    STARTS_A_CHILD,
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
    sending = SendPermission(lambda: False)

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
from tests.fabric.tools.mcp.worlds import call, runner, stdio

async def main():
    server = stdio()
    port = runner(server)
    print((await call(port, server, 'whoami')).result.split()[0], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_server_that_keeps_to_the_protocol_ends_with_a_worker_that_is_killed():
    worker = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    with worker:
        pid = int(worker.stdout.readline())
        watch = os.pidfd_open(pid)
        worker.kill()
        ended, _, _ = select.select([watch], [], [], 30)
        os.close(watch)
    assert ended


KEEPER = Path(child.__file__)
HEEDS_NO_END = KILLED.replace("runner, stdio", "children_of, program, runner, HEEDS_NOTHING").replace(
    "stdio()", "program(HEEDS_NOTHING)"
)


def test_under_up_a_server_that_heeds_nothing_ends_with_a_worker_that_is_killed():
    theirs, ours = os.pipe()
    command = [sys.executable, str(KEEPER), str(theirs), "--", sys.executable, "-c", HEEDS_NO_END]
    with subprocess.Popen(command, pass_fds=(theirs,), stdout=subprocess.PIPE, text=True) as keeper:
        os.close(theirs)
        pid = int(keeper.stdout.readline())
        watches = [os.pidfd_open(one) for one in (pid, *children_of(pid))]
        (worker,) = children_of(keeper.pid)
        os.kill(worker, signal.SIGKILL)
        ended = [select.select([watch], [], [], 30)[0] for watch in watches]
        os.close(ours)
        assert keeper.wait(30) == 128 + signal.SIGKILL
    for watch in watches:
        os.close(watch)
    assert len(ended) == 2
    assert all(ended)


def test_a_tool_without_a_server_is_the_author_s_to_mend():
    found = run(tool("add"), {})
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert found.message == "tool 'mine': no MCP server is declared for 'things/add'"
