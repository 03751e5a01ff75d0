"""Memory and processor time of a web server and a worker under load, with the reference Caddyfile in front: ``python -m tests.deploy.load``.

By hand: PostgreSQL and Redis on this machine, and Caddy on the path. Models are a scripted endpoint over HTTP. Prints one line of JSON. Memory is PSS,
children included, in MB; processor time is in cores, over the time of the load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from simulator.endpoint import ScriptedEndpoint
from simulator.endpoint.behaviour.misbehaviour import agents
from simulator.installation.database import ROOT, temporary_database
from simulator.installation.workers import WORKER, WORKER_MORE, Site
from tests.benchmarks.redis_database import empty_redis
from tests.servers.ports import free_port

HOST = "fabric.localhost"
CADDYFILE = ROOT / "deploy" / "Caddyfile"
REDIS = "redis://127.0.0.1:6379/15"


def caddyfile(https: int, http: int, web: int) -> str:
    """The reference file, on other ports and with a certificate of Caddy's own."""
    text = CADDYFILE.read_text().replace("web:8420", f"127.0.0.1:{web}")
    return text.replace("admin off", f"admin off\n\tskip_install_trust\n\thttps_port {https}\n\thttp_port {http}", 1)


@contextmanager
def process(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[int]:
    """A process of the installation by its number, ended with the block."""
    with log.open("ab") as said:
        begun = subprocess.Popen(command, env=dict(environment), cwd=ROOT, stdout=said, stderr=said)
    try:
        yield begun.pid
    finally:
        begun.terminate()
        begun.wait(60)


def family(pid: int) -> Iterator[int]:
    """A process and what it started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


def usage(pid: int) -> tuple[float, float]:
    """MB and seconds of processor time, of a process and what it started."""
    memory = seconds = 0.0
    for one in family(pid):
        with suppress(OSError):
            rows = dict(line.split(":", 1) for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()[1:])
            memory += int(rows["Pss"].split()[0]) * 1024 / 1e6
            used = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]
            seconds += sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    return memory, seconds


def measured(named: Mapping[str, int], over: threading.Event) -> dict[str, dict[str, float]]:
    """Memory before, at the most and at the end, and cores, until the event."""
    began, first = time.monotonic(), {name: usage(one) for name, one in named.items()}
    most = {name: at[0] for name, at in first.items()}
    while not over.wait(0.5):
        for name, one in named.items():
            most[name] = max(most[name], usage(one)[0])
    took, last = time.monotonic() - began, {name: usage(one) for name, one in named.items()}
    return {
        name: {
            "idle_mb": round(first[name][0]),
            "most_mb": round(most[name]),
            "end_mb": round(last[name][0]),
            "cores": round((last[name][1] - first[name][1]) / took, 2),
        }
        for name in named
    }


def until_ready(api: httpx2.Client, address: str) -> None:
    """Waits until an address answers with 200."""
    give_up, said = time.monotonic() + 25, "nothing"
    while time.monotonic() < give_up:
        try:
            answer = api.get(address)
            if answer.status_code == 200:
                return
            said = f"{answer.status_code} {answer.text[:300]}"
        except httpx2.HTTPError as error:
            said = f"{type(error).__name__}: {error}"
        time.sleep(0.3)
    raise TimeoutError(f"{address} does not answer with 200: {said}")


def load(api: httpx2.Client, runs: int, callers: int) -> dict[str, object]:
    """Callers start runs and read lists until all are over."""
    ids: list[str] = []
    slow: list[float] = []

    def caller(share: int) -> None:
        for _ in range(share):
            began = time.monotonic()
            answer = api.post("/api/v1/runs", json={"fabric": "document-review", "text": "How long is the bridge?"})
            answer.raise_for_status()
            ids.append(answer.json()["id"])
            api.get("/api/v1/runs").raise_for_status()
            slow.append((time.monotonic() - began) / 2)

    threads = [threading.Thread(target=caller, args=(runs // callers,)) for _ in range(callers)]
    began = time.monotonic()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    states: list[str] = []
    for one_id in ids:
        while (state := api.get(f"/api/v1/runs/{one_id}").json()["state"]) in ("queued", "running"):
            time.sleep(0.5)
        states.append(state)
    took = time.monotonic() - began
    slow.sort()
    return {
        "runs": len(ids),
        "seconds": round(took, 1),
        "completed": states.count("completed"),
        "request_ms": {"p50": round(1e3 * slow[len(slow) // 2]), "p95": round(1e3 * slow[int(0.95 * len(slow))])},
    }


def commands(folder: Path, web: int) -> dict[str, list[str]]:
    """Return what is started, by its name."""
    caddy = [shutil.which("caddy") or "caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    python = [sys.executable, "-m"]
    return {
        "web": [*python, "console.web_server", "--port", str(web)],
        "worker": [*python, *(WORKER + WORKER_MORE).split()],
        "proxy": caddy,
    }


def main(runs: int, callers: int) -> int:
    """Puts everything up, measures, takes it down."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fabric-load-")))
        endpoint = stack.enter_context(ScriptedEndpoint(agents()))
        environment = stack.enter_context(temporary_database("postgresql", migrated=False))
        https, http, web = free_port(), free_port(), free_port()
        environment |= {
            "CELERY_BROKER_URL": stack.enter_context(empty_redis(REDIS)),
            "CHANNEL_URL": stack.enter_context(empty_redis(REDIS)),
            "FABRIC_PUBLIC_URL": f"https://{HOST}:{https}",
            "FABRIC_TRUSTED_PROXIES": "127.0.0.1",
            "FABRIC_MODEL_URL": endpoint.url,
            "FABRIC_MODEL": "scripted",
            "FABRIC_HOST": HOST,
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        Site(environment).manage("prepare", "--json")
        made = Site(environment).manage("token", "create", "load", "--scope", "read", "start", "--json")
        (folder / "Caddyfile").write_text(caddyfile(https, http, web))
        named = {
            name: stack.enter_context(process(command, environment, folder / name))
            for name, command in commands(folder, web).items()
        }
        with httpx2.Client(
            base_url=f"https://127.0.0.1:{https}",
            verify=False,
            timeout=60,
            trust_env=False,
            headers={"Authorization": f"Bearer {made['token']}", "Host": f"{HOST}:{https}"},
            event_hooks={"request": [lambda request: request.extensions.update(sni_hostname=HOST)]},
        ) as api:
            until_ready(api, "/api/v1/runs")
            probes = {path: api.get(path).status_code for path in ("/healthz", "/readyz", "/livez")}
            load(api, callers, callers)  # The first of everything is no measure.
            over, found = threading.Event(), {}
            watch = threading.Thread(target=lambda: found.update(measured(named, over)))
            watch.start()
            line = load(api, runs, callers)
            over.set()
            watch.join()
    print(
        json.dumps(
            {**line, "callers": callers, "probes_from_outside": probes, **found, "machine_cores": os.cpu_count()}
        )
    )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--callers", type=int, default=8)
    given = parser.parse_args()
    raise SystemExit(main(given.runs, given.callers))
