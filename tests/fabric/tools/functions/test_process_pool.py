"""Registered callables run in a child process: one that never returns is ended with it, and the thread that waited comes back."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from fabric.child_processes.process import ChildDied
from fabric.core.events.inputs import CallFailed
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.secrets.known_secrets import KNOWN
from fabric.tools.answers.outcome import RetryRequested, ToolError
from fabric.tools.functions.callables import NotATool
from fabric.tools.functions.process_pool import ProcessPool, ToolRaised
from fabric.tools.functions.thread_pool import CallExpired, PoolFull, ToolPool
from fabric.tools.runner import ToolRunner
from tests.fabric.tools.asking import request, run
from tests.fabric.tools.functions.sample_tools import HERE

LONG = 30.0


@pytest.fixture
def threads():
    made = ToolPool(size=4)
    yield made
    made.close()


@pytest.fixture
def pool(threads):
    made = ProcessPool(threads)
    yield made
    made.close()


def asked(pool: ProcessPool, name: str, timeout_s: float = LONG, **args: object):
    return asyncio.run(pool.call(f"{HERE}.{name}", args, "key-1", timeout_s, {}))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_runs_elsewhere_in_one_process_again_and_again_and_what_it_prints_is_no_answer(pool):
    pids = {asked(pool, "pid") for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_a_process_is_replaced_after_so_many_calls(threads):
    pool = ProcessPool(threads, calls_max=2)
    pids = [asked(pool, "pid") for _ in range(5)]
    pool.close()
    assert len(set(pids)) == 3
    assert not any(alive(pid) for pid in pids)


def test_one_that_never_returns_is_killed_at_its_deadline_and_its_thread_comes_back(tmp_path: Path):
    threads = ToolPool(size=1)
    pool = ProcessPool(threads)
    asked(pool, "pid")  # A process is there, so that the deadline is the tool's alone.
    note = tmp_path / "pid"

    async def go() -> str:
        stuck = asyncio.ensure_future(pool.call(f"{HERE}.sleeps", {"note": str(note)}, "key", 2.0, {}))
        with pytest.raises(CallExpired):
            await stuck
        # The only thread is free again: this would wait for ever behind a leaked one.
        return await threads.call(lambda: "free", LONG)

    assert asyncio.run(go()) == "free"
    assert threads.leaked_threads == 0
    assert not alive(int(note.read_text()))
    assert asked(pool, "add", a=1) == {"sum": 2}
    pool.close()
    threads.close()


def test_a_call_that_is_let_go_of_ends_its_process(tmp_path):
    threads = ToolPool(size=1)
    pool = ProcessPool(threads)
    note = tmp_path / "pid"
    os.mkfifo(note)

    async def go() -> int:
        stuck = asyncio.ensure_future(pool.call(f"{HERE}.sleeps", {"note": str(note)}, "key", LONG, {}))
        pid = int(await asyncio.to_thread(note.read_text))
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        await threads.call(lambda: None, LONG)
        return pid

    assert not alive(asyncio.run(go()))
    pool.close()
    threads.close()


@pytest.mark.parametrize(
    ("name", "args", "error", "said"),
    [
        ("fail", {}, ToolRaised, "thing (ValueError)"),
        ("fail", {"how": "exit"}, ToolRaised, "it raised SystemExit: 3"),
        ("nothing", {}, NotATool, "has no function"),
        ("dies", {}, ChildDied, "exit code 7"),
        ("give", {"what": "object"}, ToolError, "is no JSON"),
        ("give", {"what": "large"}, ToolError, "1,000,003 bytes"),
    ],
)
def test_what_goes_wrong_there_is_told_here(pool, name, args, error, said):
    if said.startswith("1,000"):
        result = run(ToolSpec(name="mine", kind="callable", parameters={}, target="give"), args)
        assert said in result.error
        return
    with pytest.raises(error, match=said.replace("(", "\\(").replace(")", "\\)")):
        asked(pool, name, **args)


@pytest.mark.parametrize(("how", "code"), [("coded", "42"), ("code of another kind", ""), ("exit", ""), ("value", "")])
def test_a_tool_s_own_code_comes_with_its_error_and_no_other_s(how, code):
    result = run(ToolSpec(name="mine", kind="callable", parameters={}, target="fail"), {"how": how})
    assert result.error
    assert result.code == code


def test_one_that_found_no_process_was_never_begun(threads, tmp_path):
    pool = ProcessPool(threads, size=1)
    note = tmp_path / "pid"
    os.mkfifo(note)

    async def go() -> None:
        stuck = asyncio.ensure_future(pool.call(f"{HERE}.sleeps", {"note": str(note)}, "key", LONG, {}))
        assert await asyncio.to_thread(note.read_text)
        with pytest.raises(PoolFull, match="no tool process became free"):
            await pool.call(f"{HERE}.pid", {}, "key", 0.3, {})
        stuck.cancel()
        await asyncio.wait([stuck])

    asyncio.run(asyncio.wait_for(go(), 60))
    pool.close()


@pytest.mark.parametrize(
    ("function", "args", "outcome"),
    [
        ("dies", {}, Outcome.UNKNOWN),
        ("fail", {}, Outcome.UNKNOWN),
        ("give", {"what": "deep"}, Outcome.ANSWERED),
        ("give", {"what": "large"}, Outcome.ANSWERED),
        ("give", {"what": "object"}, Outcome.ANSWERED),
        ("add", {"a": 1}, None),
    ],
)
def test_the_runner_says_whether_it_was_done(function, args, outcome):
    spec = ToolSpec(name="mine", kind="callable", parameters={}, target=function, effect="mutating")
    assert run(spec, args).outcome is outcome


@pytest.mark.parametrize(
    ("spec", "fields", "cause", "outcome"),
    [
        ({"name": "calculator"}, {"within_s": -1}, Cause.TIMEOUT, Outcome.REJECTED),
        ({"name": "teleport"}, {}, Cause.BAD_CONFIGURATION, Outcome.REJECTED),
        ({"name": "x", "kind": "callable", "target": "nothing"}, {}, Cause.BAD_CONFIGURATION, Outcome.REJECTED),
    ],
)
def test_what_never_began_was_not_done(spec, fields, cause, outcome):
    runner = ToolRunner()
    found = asyncio.run(runner.run(request(ToolSpec(**spec), {"expression": "1"}, **fields)))
    runner.close()
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (cause, outcome)


@pytest.mark.parametrize(("how", "after_s"), [("again", 5.0), ("again at once", None)])
def test_a_function_that_asks_to_be_called_once_more_is_a_call_that_failed_and_did_nothing(how, after_s):
    spec = ToolSpec(name="fail", kind="callable", target="fail", parameters={"type": "object"})
    found = run(spec, {"how": how})
    assert isinstance(found, CallFailed)
    assert (found.cause, found.retry_after_s, found.outcome) == (Cause.RETRY_ASKED, after_s, Outcome.REJECTED)
    assert found.message == "the index is being built"


def test_another_library_s_exception_of_that_name_asks_for_nothing(pool):
    with pytest.raises(ToolRaised, match="a task of another library \\(Retry\\)"):
        asked(pool, "fail", how="another's")


@pytest.mark.parametrize("after_s", [-1, True, "5", float("nan"), 86_401])
def test_a_time_that_is_none_is_left_out(after_s):
    assert RetryRequested("later", after_s).retry_after_s is None


def test_what_it_prints_is_passed_on_without_what_is_secret(threads, capfd):
    """The pipe is read to its end, so nothing that it prints holds it up."""
    KNOWN.add("test", ["canary-printed-0123456789"])
    pool = ProcessPool(threads)
    asyncio.run(
        pool.call(f"{HERE}.prints", {"times": 3_000}, "key-1", LONG, {"SAMPLE_KEY": "canary-printed-0123456789"})
    )
    pool.close()
    for thread in threading.enumerate():
        if thread.name == "child-stderr":
            thread.join(LONG)
    said = capfd.readouterr().err
    assert said.count("it is [secret]\n") == 3_000
    assert "canary-printed" not in said
    KNOWN.learn("test", [])
