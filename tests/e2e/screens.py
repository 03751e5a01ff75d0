"""Pictures of every page from the running program: ``python -m tests.e2e.screens OUT_DIR [NAME ...]``.

It starts an installation of its own, takes the empty pages, fills it with runs that completed, wait, were rejected and were cancelled, and takes
all pages again: light and dark, 1440 and 390 pixels wide. Names pick pages. Afterwards it prints one line a page: complaints of the browser
and pages that scroll sideways.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

from console.launch.paths import ROOT
from tests.console.launch.processes import PATIENCE_S, Lines, free_port, started

WIDTHS = {"1440": (1440, 900), "390": (390, 844)}
SCHEMES = ("light", "dark")
CONTRACT_CHECK = """\
name: contract-check
title: Contract check
description: Reads a contract and asks a person before it says anything binding. Its critic is never content.
example: Which of these clauses bind us?
models:
  - name: script
    provider: scripted
    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}
    options: {score: 0.55}
tools:
  - name: read_document
agents:
  - {name: planner, model: script, instructions: Plan.}
  - {name: reader, model: script, instructions: Read., tools: [read_document]}
  - {name: critic, model: script, instructions: Judge.}
topology: {planner: planner, workers: [reader], critic: critic}
policy:
  budget: {run_usd_micros: 1000000}
reviewers: [owner]
"""
NOTES = "The budget of the project is 40 dollars. The deadline is Friday, and it will not move.\n"
REQUESTS = (
    "What do these notes say about costs and deadlines?",
    "Compare what the two documents say about budgets.",
    "Which of the promises in here have no owner?",
    "Summarise the risks in three sentences.",
)


class Program:
    """One running installation."""

    def __init__(self, data: Path, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.data = data
        self.environ = {**os.environ, "FABRIC_DATA": str(data), "FABRIC_PORT": str(port)}
        self.environ.pop("DJANGO_SETTINGS_MODULE", None)

    def manage(self, *command: str, fails: bool = False) -> str:
        """A command of this installation; what it printed."""
        line = [sys.executable, str(ROOT / "manage.py"), *command]
        done = subprocess.run(
            line, env=self.environ, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_S
        )
        if done.returncode and not fails:
            raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def login_link(self) -> str:
        """A fresh one-time link."""
        found = re.search(r"http\S+/login/\S+", self.manage("bootstrap"))
        assert found
        return found[0]


@contextmanager
def running() -> Iterator[Program]:
    """``manage.py up`` over a directory that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="fabric-screens-") as folder:
        port = free_port()
        program = Program(Path(folder), port)
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", folder, "--port", str(port)]
        with started(command, env=program.environ, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert Lines(process.stdout.fileno()).next().startswith("Fabric Flow runs at ")
            yield program
            process.send_signal(signal.SIGINT)
            process.wait(2 * PATIENCE_S)


def filled(program: Program, page: Page) -> dict[str, str]:
    """Runs of every kind; the addresses that lead to them."""
    notes, doubtful = program.data / "notes.md", program.data / "doubtful.yaml"
    notes.write_text(NOTES)
    doubtful.write_text(CONTRACT_CHECK)
    program.manage("fabric", "publish", str(doubtful))
    ids = {}
    for number, text in enumerate(REQUESTS):
        ids[f"done{number}"] = _started(program, page, "research-desk", text, notes)
    waiting = [_started(program, page, "contract-check", text, notes) for text in REQUESTS[:3]]
    page.locator("article.question").wait_for()
    page.get_by_label("Message").fill("The notes say otherwise: the deadline moved.")
    page.get_by_role("button", name="Reject").click()
    page.locator("#live[data-live=ended]").wait_for()
    page.goto(f"{program.base}/runs/{waiting[1]}/cancel")
    page.get_by_label("Reason").fill("Asked twice.")
    page.get_by_role("button", name="Cancel the run").click()
    page.locator("#live[data-live=ended]").wait_for()
    done, asked, cancelled, rejected = ids["done0"], waiting[0], waiting[1], waiting[2]
    return {
        "overview": "/",
        "start": "/start",
        "start-like": f"/start?from={done}",
        "runs": "/runs",
        "runs-none": "/runs?q=state:failed+nosuchword",
        "runs-wrong-query": "/runs?q=state:nosuch",
        "run-completed": f"/runs/{done}",
        "run-events": f"/runs/{done}?view=events",
        "run-graph": f"/runs/{done}?view=graph",
        "run-protections": f"/runs/{done}?view=protections",
        "run-cost": f"/runs/{done}?view=cost",
        "run-io": f"/runs/{done}?view=io",
        "run-waiting": f"/runs/{asked}",
        "run-rejected": f"/runs/{rejected}",
        "run-cancelled": f"/runs/{cancelled}",
        "cancel": f"/runs/{asked}/cancel",
        "event": f"/runs/{done}/events/5",
        "reviews": "/reviews",
        "fabrics": "/fabrics",
        "fabric": "/fabrics/research-desk",
        "search": "/search?q=budget",
        "not-found": "/nosuch",
    }


def _started(program: Program, page: Page, fabric: str, text: str, notes: Path) -> str:
    page.goto(f"{program.base}/start?fabric={fabric}")
    page.get_by_label("What do you want to know").fill(text)
    page.get_by_label("Documents to read").set_input_files([str(notes)])
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/*")
    page.locator("#live[data-live=ended], article.question").first.wait_for()
    return page.url.rpartition("/")[2]


EMPTY = {
    "overview-empty": "/",
    "runs-empty": "/runs",
    "reviews-empty": "/reviews",
    "start-empty": "/start",
    "search-empty": "/search",
}


def _overheard(page: Page, said: list[str]) -> None:
    """Keeps what the browser complains about."""

    def error(found: Error) -> None:
        said.append(str(found))

    def line(found: ConsoleMessage) -> None:
        if found.type == "error":
            said.append(found.text)

    page.on("pageerror", error)
    page.on("console", line)


def shoot(
    browser: Browser, program: Program, state: object, pages: Mapping[str, str], out: Path, wanted: list[str]
) -> None:
    """Every page in both schemes and widths, signed in."""
    for scheme in SCHEMES:
        for width, (wide, high) in WIDTHS.items():
            context = browser.new_context(
                base_url=program.base,
                color_scheme=scheme,  # type: ignore[arg-type]
                viewport={"width": wide, "height": high},
                storage_state=state,  # type: ignore[arg-type]
            )
            page = context.new_page()
            said: list[str] = []
            _overheard(page, said)
            for name, address in pages.items():
                if wanted and not any(part in name for part in wanted):
                    continue
                said.clear()
                answer = page.goto(address)
                page.wait_for_load_state("load")
                page.screenshot(path=out / f"{name}-{width}-{scheme}.png", full_page=True)
                status = answer.status if answer else 0
                sideways = page.evaluate("document.documentElement.scrollWidth") > wide
                found = [line for line in said if "status of 404" not in line or status != 404]
                print(
                    json.dumps(
                        {
                            "page": name,
                            "width": width,
                            "scheme": scheme,
                            "status": status,
                            "sideways": sideways,
                            "said": found,
                        }
                    )
                )
            context.close()


def for_readme(browser: Browser, program: Program, state: object, address: str, out: Path) -> None:
    """The picture at the top of README.md, light and dark: what is seen without scrolling."""
    for scheme in SCHEMES:
        context = browser.new_context(
            base_url=program.base,
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": 1280, "height": 900},
            storage_state=state,  # type: ignore[arg-type]
        )
        page = context.new_page()
        page.goto(address)
        page.wait_for_load_state("load")
        page.screenshot(path=out / f"readme-{scheme}.png")
        context.close()


def main(out: Path, wanted: list[str]) -> None:
    """Takes them all."""
    out.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with running() as program, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(1_000 * PATIENCE_S)
        page.goto(program.login_link())
        shoot(browser, program, None, {"login": "/login"}, out, wanted)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{program.base}/")
        state = page.context.storage_state()
        shoot(browser, program, state, EMPTY, out, wanted)
        pages = filled(program, page)
        shoot(browser, program, state, pages, out, wanted)
        for_readme(browser, program, state, pages["run-completed"], out)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("python -m tests.e2e.screens OUT_DIR [NAME ...]")
    main(Path(sys.argv[1]), sys.argv[2:])
