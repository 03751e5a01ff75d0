"""`manage.py up`: a running Fabric Flow from nothing, in one command.

Takes the data directory, binds the port, brings the database up to date, and then supervises one web server and one
worker. The listening socket belongs to this process, so a web server that is restarted drops no connection attempt.
"""

import argparse
import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from console.launch import datadir
from console.launch.errors import Refused
from console.launch.paths import HOST, PORT, ROOT, data_dir
from console.launch.supervisor import ChildSpec, Supervisor

WORKER_THREADS = 4  # A Celery task only offers a run to the host and returns; runs are not what these threads are for.
_PROBE_TIMEOUT_S = 60.0
_PROBE_PAUSE_S = 0.5


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the options of `up`; ends the process with usage and exit code 2 when they are wrong."""
    parser = argparse.ArgumentParser(prog="manage.py up", description="Run Fabric Flow on this machine.")
    parser.add_argument("--port", type=_port, default=PORT, help=f"port on {HOST} (default {PORT})")
    parser.add_argument("--data", type=Path, help="data directory (default: FABRIC_DATA, else the XDG data folder)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """Run until stopped; return the exit code. Raises Refused with what is in the way."""
    data = datadir.prepare((options.data or data_dir()).expanduser().absolute())
    url = f"http://{HOST}:{options.port}"
    held = datadir.hold(data, url)
    listener = listen(options.port)
    os.environ.update(FABRIC_DATA=str(data), FABRIC_PORT=str(options.port), PYTHONUNBUFFERED="1")
    try:
        _manage("migrate", "--no-input", "--verbosity", "0", problem="The database could not be brought up to date")
        welcome = _manage("bootstrap", problem="The first start could not be prepared") if _has("bootstrap") else ""
    except KeyboardInterrupt:
        return 130
    supervisor = Supervisor(_children(listener), shared_fds=[held.fileno()], say=_say)
    stopping = threading.Event()
    announcement = threading.Thread(
        target=_announce, args=(options.port, welcome, not options.no_browser, stopping), name="announce", daemon=True
    )
    announcement.start()
    try:
        return supervisor.run()
    finally:
        stopping.set()


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address. Raises Refused when the port cannot be had."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise Refused(
            f"Port {port} on {HOST} cannot be used ({error.strerror}): choose another with --port."
        ) from error
    return listener


def _children(listener: socket.socket) -> list[ChildSpec]:
    web = f"uvicorn console.asgi:application --fd {listener.fileno()} --log-level warning --no-access-log"
    web += " --no-server-header --timeout-graceful-shutdown 10 --ws-max-size 65536"
    worker = f"celery --quiet -A console worker --pool threads --concurrency {WORKER_THREADS} --loglevel WARNING"
    worker += " --without-gossip --without-mingle --without-heartbeat"
    return [
        ChildSpec("web server", [sys.executable, "-m", *web.split()], kept_fds=(listener.fileno(),)),
        ChildSpec("worker", [sys.executable, "-m", *worker.split()]),
    ]


def _has(command: str) -> bool:
    return any(ROOT.glob(f"*/management/commands/{command}.py"))


def _manage(*command: str, problem: str) -> str:
    """Run a Django command in a process of its own (this one stays free of Django) and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *command], check=False, capture_output=True, text=True, cwd=ROOT
    )
    if done.returncode:
        if os.environ.get("FABRIC_DEBUG"):
            sys.stderr.write(done.stderr)
        cause = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Refused(f"{problem}: {cause.rstrip('.')}. `FABRIC_DEBUG=1` shows the whole message.")
    return done.stdout.strip()


def _announce(port: int, welcome: str, browser: bool, stopping: threading.Event) -> None:
    if not _until(lambda: _healthy(port), stopping):
        return
    url = f"http://{HOST}:{port}"
    print(f"Fabric Flow runs at {url} (Ctrl-C stops it).", flush=True)
    if welcome:
        print(welcome, flush=True)
    if browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"):
        link = re.search(r"https?://\S+", welcome)
        webbrowser.open(link[0] if link else url)


def _until(condition: Callable[[], bool], stopping: threading.Event) -> bool:
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
    except OSError:
        return False
    finally:
        connection.close()


def _port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 1 to 65535")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
