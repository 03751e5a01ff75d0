"""The scripted endpoint in a terminal: its options, what is wrong with them, and serving until a signal.

``manage.py dev endpoint`` and ``python -m simulator.endpoint`` are two doors to it.
"""

from __future__ import annotations

import json
import signal
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.endpoint.behaviour.definition import EVERY, Behaviour
from simulator.endpoint.player import PLAYS, Playing, behaviour_named, describe_unknown, write_sentence
from simulator.endpoint.protocols import path_without_query
from simulator.endpoint.wire.server import LOOPBACK, Received, ScriptedEndpoint, build_line
from simulator.endpoint.wire.steps import Step

Say = Callable[[str], None]

HELP = (
    "Serve a model endpoint that fails by script, for the client of any framework. It runs without a model. "
    "It speaks OpenAI's chat completions and Responses, Anthropic's Messages and Google's generateContent."
)
PORT_MAX = 65_535
DELAY_MAX_S = 3_600.0
SECRET_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "proxy-authorization"})
"""Headers whose value no ledger holds."""


class CommandRefused(Exception):
    """The options are wrong. The message says it in one sentence. Exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The options, understood. None leaves what the behaviour says."""

    name: str
    behaviour: Behaviour
    host: str
    port: int
    after: int | None
    times: int | None
    delay_s: float | None
    seed: int
    ledger: Path | None
    as_json: bool


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options. Numbers are taken as text, so that a wrong one gets a sentence of ours."""
    add = parser.add_argument
    add(
        "--fault",
        default="cooperative",
        metavar="NAME",
        help="the fault it plays (cooperative: none); --list lists all",
    )
    add("--list", action="store_true", help="list the faults, a sentence each")
    add("--port", default="0", metavar="N", help="the port (0, the default: any free one)")
    add("--host", default=LOOPBACK, metavar="ADDRESS", help=f"the address to listen on ({LOOPBACK}: this machine only)")
    add("--after", metavar="N", help="answer the first N requests well")
    add("--times", metavar="N", help="fail N times, then answer well")
    add("--delay", metavar="SECONDS", help="wait before each answer of the fault")
    add("--seed", default="1", metavar="S", help="of a fault that draws (1)")
    add("--ledger", metavar="FILE", help="append each request to this file as a line of JSON; keys are left out")
    add("--json", action="store_true", help="each line, or the list, as JSON")


def run(options: Mapping[str, Any], say: Say, complain: Say) -> int:
    """Lists, or serves until a signal. Exit code 0: listed; 2: bad options; 128 and the signal's number: it
    was ended.
    """
    if options["list"]:
        for line in list_faults(as_json=options["json"]):
            say(line)
        return 0
    try:
        return serve(read_options(options), say)
    except CommandRefused as refused:
        complain(str(refused))
        return 2


def list_faults(*, as_json: bool) -> Iterator[str]:
    """Yield a line for each fault, or one line of JSON. A line names the protocols where not all have the fault."""
    if as_json:
        found = [
            {"name": name, "sentence": write_sentence(name), "protocols": list(one.protocols)}
            for name, one in PLAYS.items()
        ]
        yield json.dumps({"faults": found})
        return
    width = max(map(len, PLAYS))
    for name, one in PLAYS.items():
        only = "" if one.protocols == EVERY else f" ({', '.join(one.protocols)})"
        yield f"{name:{width}}  {write_sentence(name)}{only}"


def read_options(options: Mapping[str, Any]) -> Chosen:
    """The options as they are meant. ``Refused`` for the first that is wrong."""
    if (behaviour := behaviour_named(options["fault"])) is None:
        raise CommandRefused(describe_unknown(options["fault"]))
    if not options["host"].strip():
        raise CommandRefused(f"--host is empty, which would be every address: give one, or leave it out for {LOOPBACK}")
    after, times, delay = (options[name] for name in ("after", "times", "delay"))
    ledger = Path(options["ledger"]) if options["ledger"] else None
    return Chosen(
        name=options["fault"],
        behaviour=behaviour,
        host=options["host"],
        port=_whole("--port", options["port"], 0, PORT_MAX),
        after=None if after is None else _whole("--after", after, 0),
        times=None if times is None else _whole("--times", times, 1),
        delay_s=None if delay is None else _seconds(delay),
        seed=_whole("--seed", options["seed"], 0),
        ledger=_writable(ledger),
        as_json=options["json"],
    )


def serve(chosen: Chosen, say: Say) -> int:
    """Serves until SIGINT or SIGTERM; 128 and its number. ``Refused`` where it cannot listen."""
    playing = Playing(
        chosen.behaviour, after=chosen.after, times=chosen.times, delay_s=chosen.delay_s, seed=chosen.seed
    )

    def reply(received: Received) -> Step:
        step = playing.reply(received)
        if chosen.ledger is not None:
            _write(chosen.ledger, received, playing.struck)
        say(_line(chosen, received, step, playing.struck))
        return step

    with _ended_by_signals() as signals:
        try:
            with ScriptedEndpoint(reply, host=chosen.host, port=chosen.port, keep=False) as endpoint:
                for line in _describe_start(chosen, playing, endpoint.url):
                    say(line)
                threading.Event().wait()
        except KeyboardInterrupt:
            pass
        except OSError as error:
            raise CommandRefused(_not_listening(chosen, error)) from None
    return 128 + (signals[0] if signals else signal.SIGINT)


def _whole(option: str, text: str, least: int, most: int | None = None) -> int:
    wanted = f"from {least} to {most}" if most is not None else f"from {least} on"
    try:
        found = int(text)
    except ValueError:
        raise CommandRefused(f"{option} is {text!r}: give a whole number {wanted}") from None
    if found < least or (most is not None and found > most):
        raise CommandRefused(f"{option} is {found}: give a whole number {wanted}")
    return found


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= DELAY_MAX_S:  # A NaN is in no range.
        raise CommandRefused(f"--delay is {text!r}: give seconds from 0 to {DELAY_MAX_S:g}")
    return found


def _writable(path: Path | None) -> Path | None:
    if path is not None:
        try:
            path.open("a", encoding="utf-8").close()
        except OSError as error:
            raise CommandRefused(f"--ledger: {path} cannot be written: {error.strerror or error}") from None
    return path


def _not_listening(chosen: Chosen, error: OSError) -> str:
    if "in use" in str(error):
        return f"--port {chosen.port} is taken: give another, or leave it out for any free one"
    where = f"--host {chosen.host} with --port {chosen.port}"
    return f"{where} cannot be listened on: {error.strerror or error}"


@contextmanager
def _ended_by_signals() -> Iterator[list[int]]:
    """Let SIGTERM interrupt as Ctrl-C does. The list that it gives receives the signal's number."""
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _describe_start(chosen: Chosen, playing: Playing, url: str) -> Iterator[str]:
    """Yield the lines of the start: the fault, and the variables that make a client ask here."""
    if chosen.as_json:
        told = {"url": url, "fault": chosen.name, "after": playing.after, "times": playing.times}
        yield json.dumps({**told, "delay_s": playing.delay_s, "seed": chosen.seed})
        return
    base = url.removesuffix("/v1")
    yield f"{chosen.name}: {write_sentence(chosen.name)}{_when(playing)}"
    yield f"OPENAI_BASE_URL={url} OPENAI_API_KEY=any"
    yield f"ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY=any"
    yield f"GOOGLE_GEMINI_BASE_URL={base} GEMINI_API_KEY=any"
    yield f"FABRIC_MODEL_URL={url} FABRIC_MODEL=scripted"
    yield "Ctrl-C ends it."


def _when(playing: Playing) -> str:
    if not playing.after and playing.times is None:
        return ""
    first = f"after {_many(playing.after, 'good answer')}" if playing.after else "at once"
    often = "for ever" if playing.times is None else _many(playing.times, "time")
    return f" ({first}, {often})"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _line(chosen: Chosen, received: Received, step: Step, struck: bool) -> str:
    by = chosen.name if struck else "healthy"
    told = {
        "number": received.number,
        "method": received.method,
        "path": path_without_query(received.path),
        "agent": received.agent,
        "key": bool(received.key),
        "stream": _streams(received),
        "by": by,
        "status": step.status,
        "mode": step.mode,
    }
    if chosen.as_json:
        return json.dumps(told)
    how = str(step.status) if step.mode == "send" else step.mode
    agent = f" agent={_printable(received.agent)}" if received.agent else ""
    stream = " stream" if told["stream"] else ""
    return f"{received.number:4} {received.method} {_printable(path_without_query(received.path))}{agent}{stream} key={'yes' if received.key else 'no'}: {by} {how}"


def _streams(received: Received) -> bool:
    asked = isinstance(received.body, dict) and received.body.get("stream") is True
    return asked or ":streamGenerateContent" in received.path


def _printable(text: str) -> str:
    """Return a client's text as one line that a terminal may show."""
    return text[:200].encode("unicode_escape").decode("ascii")


def _write(path: Path, received: Received, struck: bool) -> None:
    """Write a line of the ledger: the request without its keys."""
    kept = {name: text for name, text in received.headers.items() if name not in SECRET_HEADERS}
    line = {
        **build_line(received),
        "path": path_without_query(received.path),
        "key": bool(received.key),
        "headers": kept,
        "struck": struck,
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
