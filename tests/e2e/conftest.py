"""A whole Fabric Flow by `manage.py up`, and a real browser in front of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from console.launch.child import descendants
from console.launch.paths import ROOT
from tests.console.launch.processes import PATIENCE_S, Lines, free_port, started
from tests.fabric.services.world import DOUBTFUL

PATIENCE_MS = 1000 * PATIENCE_S


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: drives a real browser (chromium) against manage.py up")


@dataclass
class Installation:
    """A running Fabric Flow with a data directory of its own."""

    process: subprocess.Popen[bytes]
    base: str
    environ: dict[str, str]

    def manage(self, *command: str) -> str:
        """Run a command of this installation; what it printed."""
        line = [sys.executable, str(ROOT / "manage.py"), *command]
        done = subprocess.run(line, env=self.environ, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout

    def login_link(self) -> str:
        """A fresh one-time link."""
        found = re.search(r"http\S+/login/\S+", self.manage("bootstrap"))
        assert found
        return found[0]

    def kill_web_server(self) -> None:
        """As the kernel would when memory is short; `up` starts another."""
        (pid,) = [pid for pid in descendants(self.process.pid) if "uvicorn" in _arguments(pid)[:3]]
        os.kill(pid, signal.SIGKILL)


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    data, port = tmp_path_factory.mktemp("data"), free_port()
    named = {"FABRIC_DATA": str(data), "FABRIC_PORT": str(port)}
    environ = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"} | named
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data), "--port", str(port)]
    with started(command, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert Lines(process.stdout.fileno()).next().startswith("Fabric Flow runs at ")
        found = Installation(process, f"http://127.0.0.1:{port}", environ)
        doubtful = data / "doubtful.yaml"
        doubtful.write_text(DOUBTFUL)
        found.manage("fabric", "publish", str(doubtful))
        yield found
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE_S) == 0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium. One a module: while it is there, this thread has a running event loop."""
    path = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        sentence = "every test in a browser: no chromium is installed (TEST_CHROMIUM names one)"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"left out {sentence}", pytrace=False)
        pytest.skip(sentence)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visitor:
    """Somebody at a browser, signed in; whatever the browser complains about is kept."""

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """The seqs of the events in the page, in the order in which they stand there."""
        return [
            int(seq)
            for seq in self.page.eval_on_selector_all("#events-rows tr", "rows => rows.map(r => r.dataset.seq)")
        ]


@pytest.fixture
def visit(installation: Installation, chromium: Browser) -> Iterator[Callable[..., Visitor]]:
    """Makes visitors: ``visit(java_script_enabled=False)``."""
    contexts = []

    def make(**options: object) -> Visitor:
        context = chromium.new_context(base_url=installation.base, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        visitor = Visitor(context, context.new_page())
        visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        visitor.page.on(
            "console",
            lambda said: (
                visitor.complaints.append(said.text)
                if said.type == "error" and "status of 4" not in said.text and "WebSocket connection" not in said.text
                else None
            ),
        )
        visitor.page.goto(installation.login_link())
        visitor.page.get_by_role("button", name="Sign in").click()
        visitor.page.wait_for_url(f"{installation.base}/")
        return visitor

    yield make
    for context in contexts:
        context.close()
