"""Functions that tests name as tools: ``NAMED`` is what the operator of the tests named."""

import os
import threading
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError

from fabric.core.graph.state import Finish, Handoff, RoundWrote, Writes
from fabric.tools.answers.outcome import RetryRequested, ToolError
from fabric.tools.functions.callables import tool

RELEASE = threading.Event()
STARTED = threading.Semaphore(0)
"""Released once by each call of ``wait`` as it begins."""
HERE = "tests.fabric.tools.functions.sample_tools"
NAMED = {
    name: f"{HERE}.{name}"
    for name in ("add", "typed", "keyed", "fail", "give", "sleeps", "pid", "dies", "resolves", "routes", "seen")
}


@tool(effect="read_only")
def add(a, b=1):
    return {"sum": a + b}


@tool(effect="read_only")
def typed(a):
    """The type of what it is given, and of the first thing inside of it."""
    inside = next(iter(a.values() if isinstance(a, dict) else a), None) if isinstance(a, dict | list) else None
    return type(a).__name__ + (f"[{type(inside).__name__}]" if inside is not None else "")


@tool(effect="read_only")
def keyed(a, *, idempotency_key):
    return [a, idempotency_key]


@tool(effect="read_only")
def wait():
    STARTED.release()
    RELEASE.wait(30)
    return "over"


@tool(effect="read_only")
def fail(how="value"):
    if how == "exit":
        raise SystemExit(3)
    if how == "stop":
        raise StopIteration
    if how == "coded":
        raise ToolError("it is locked", code=42)
    if how == "code of another kind":
        raise HTTPError("https://example.org", 404, "not found", Message(), None)
    if how == "again":
        raise RetryRequested("the index is being built", after_s=5)
    if how == "again at once":
        raise RetryRequested("the index is being built")
    if how == "another's":
        raise type("Retry", (Exception,), {})("a task of another library")
    if how == "timeout":
        raise TimeoutError("the printer is slow")
    raise ValueError("no such\0 thing")


@tool(effect="read_only")
def give(what):
    return {
        "nan": float("nan"),
        "object": object(),
        "deep": _deep(),
        "large": "x" * 1_000_001,
        "text": "a\0b",
    }[what]


@tool(effect="read_only")
async def later():
    return 1


def unmarked():
    return 1


def _deep():
    value = []
    for _ in range(100):
        value = [value]
    return value


@tool(effect="read_only")
def sleeps(note):
    """Says who it is, and never returns."""
    Path(note).write_text(str(os.getpid()))
    threading.Event().wait()


@tool(effect="read_only")
def pid():
    print("this goes to standard error")
    return os.getpid()


@tool(effect="read_only")
def dies():
    os._exit(7)


@tool(effect="read_only")
def resolves(solution, to=""):
    then = Handoff(to) if to else None
    return RoundWrote(Writes(set={"solution": solution}, delete=("open",)), {"resolved": True}, then)


@tool(effect="read_only")
def routes(to="", why=""):
    return Handoff(to, why) if to else Finish(why)


@tool(effect="read_only", variables=("SAMPLE_KEY",))
def seen():
    return dict(os.environ)


@tool(effect="read_only", variables=("SAMPLE_KEY",))
def prints(times=1):
    for _ in range(times):
        print("it is", os.environ["SAMPLE_KEY"], flush=True)
