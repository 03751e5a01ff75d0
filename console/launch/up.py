"""Runs `manage.py up`: a Fabric Flow from nothing, in one command.

It locks the data directory, binds the port, brings the database up to date, and then supervises one web server and
one worker. The listening socket belongs to this process, so a restarted web server drops no connection attempt.
"""

import argparse
import errno
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from console.launch.processes import commands as kept
from console.launch.processes import data_directory as datadir
from console.launch.processes.data_directory import HOST, PORT, ROOT, command_line, data_dir
from console.launch.processes.errors import StartRefused
from console.launch.processes.heartbeat import SILENCE_S
from console.launch.supervisor import ChildSpec, Supervisor
from console.launch.variables import table as variables
from fabric.program.name import program

_PROBE_TIMEOUT_S = 15.0
_PROBE_PAUSE_S = 0.5


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')} (--help lists the options).\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of `up`. Exits with code 2 for wrong ones; raises Refused for a wrong setting."""
    parser = _Parser(prog=f"{program()} up", description="Run Fabric Flow on this machine.", allow_abbrev=False)
    parser.add_argument("--port", type=_port, help=f"port on {HOST} (default: FABRIC_PORT, else {PORT})")
    parser.add_argument("--data", type=Path, help="data directory (default: FABRIC_DATA, else the XDG data folder)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    options = parser.parse_args(argv)
    variables.refuse_unusable()
    options.port = options.port or variables.read("FABRIC_PORT") or PORT
    return options


def run(options: argparse.Namespace, *, silence_s: float = SILENCE_S) -> int:
    """Run until stopped; return the exit code. Raises Refused for an obstacle.

    `silence_s`: seconds without a sign of life after which a child is replaced.
    """
    data = datadir.prepare((options.data or data_dir()).expanduser().absolute())
    url = f"http://{HOST}:{options.port}"
    held = datadir.hold(data, url)
    listener = listen(options.port)
    os.environ.update(FABRIC_DATA=str(data), FABRIC_PORT=str(options.port), PYTHONUNBUFFERED="1")
    report = _prepare(held)
    supervisor = Supervisor(_children(listener), shared_fds=[held.fileno()], say=_say, silence_s=silence_s)
    stopping = threading.Event()
    announcement = threading.Thread(
        target=_announce,
        args=(options.port, welcome(url, data, report), "" if options.no_browser else report["login"], stopping),
        name="announce",
        daemon=True,
    )
    announcement.start()
    try:
        return supervisor.run()
    finally:
        stopping.set()


def welcome(url: str, data: Path, report: Mapping[str, str]) -> str:
    """Return the welcome text, in at most ten lines; the login link has a line of its own."""
    database = report["database"].replace(f"{data}{os.sep}", "")
    lines = [
        f"Fabric Flow runs at {url} (Ctrl-C stops it).",
        f"Sign in with this link, once and within an hour (`{program()} bootstrap` makes another):",
        f"  {report['login']}",
        f"  data      {data}",
        f"  database  {database}",
        f"  broker    {report['broker']}",
        f"  workers   {report['workers']}",
        f"  models    {report['models']}",
    ]
    if left_out := report.get("left out"):
        lines.append(f"  left out  {left_out}")
    if os.environ.get("SSH_CONNECTION"):
        port = url.rpartition(":")[2]
        lines.append(
            f"  ssh       from your own machine: ssh -L {port}:{HOST}:{port} THIS-HOST, then open the link there"
        )
    return "\n".join(lines)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address. Raises Refused if the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        why = f"{error.strerror}; below 1024 is for root" if error.errno == errno.EACCES else error.strerror
        raise StartRefused(f"Port {port} on {HOST} cannot be used ({why}): choose another with --port.") from error
    return listener


def _children(listener: socket.socket) -> list[ChildSpec]:
    web = ("console.web_server", "--fd", str(listener.fileno()))
    return [
        ChildSpec("web server", [sys.executable, "-m", *web], kept_fds=(listener.fileno(),), beats=True),
        ChildSpec("worker", [sys.executable, "-m", "console.worker"], beats=True),
    ]


def _prepare(held: TextIO) -> dict[str, str]:
    """Bring the database up to date in another process, since this one stays free of Django. Return its report."""
    command = [*command_line(), "prepare", "--json"]
    done = kept.run(command, shared_fds=[held.fileno()], cwd=ROOT, capture=True)
    said = done.stderr.strip()
    if done.returncode == 0:
        if said:
            _say(said)
        report: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return report
    last = (said or f"exit code {done.returncode}").splitlines()[-1]
    if "Traceback" not in said:
        raise StartRefused(f"{last[:1].upper()}{last[1:].rstrip('.')}.")
    if variables.read("FABRIC_DEBUG"):
        _say(said)
    raise StartRefused(
        f"Fabric Flow could not be prepared: {last.rstrip('.')}. `FABRIC_DEBUG=1` shows the whole message."
    )


def _announce(port: int, text: str, link: str, stopping: threading.Event) -> None:
    late = threading.Timer(_PROBE_TIMEOUT_S, _say, [_LATE])
    late.daemon = True
    late.start()
    healthy = _wait_for(lambda: _healthy(port), stopping)
    late.cancel()
    if not healthy:
        return
    _put(text, sys.stdout)
    if link and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"):
        _open(link)


def _open(link: str) -> None:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    # The plain class is a browser in the terminal, which would take it away from us.
    if type(browser) is not webbrowser.GenericBrowser:
        command = [sys.executable, "-c", "import sys, webbrowser; webbrowser.open(sys.stdin.read())"]
        # A program that is not ours is given none of our secrets.
        subprocess.run(command, input=link, text=True, env=variables.drop_secrets(), check=False)


def _wait_for(condition: Callable[[], bool], stopping: threading.Event) -> bool:
    while not stopping.is_set():
        if condition():
            return True
        stopping.wait(_PROBE_PAUSE_S)
    return False


def _healthy(port: int) -> bool:
    # The socket listens from the start, so the first request simply waits until the web server is there to answer it.
    connection = http.client.HTTPConnection(HOST, port, timeout=_PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _port(text: str) -> int:
    if number := variables.port_number(text):
        return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 1 to {variables.PORT_MAX}")


def _say(sentence: str) -> None:
    _put(sentence, sys.stderr)


def _put(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # The terminal was closed, or the pipe has no reader. Further output is lost, which must not end us.
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - For its descriptor.
            os.dup2(nowhere.fileno(), stream.fileno())


_LATE = (
    "The web server does not answer yet: if there are messages above, they say why; otherwise the machine is slow, "
    "or the database is away."
)
