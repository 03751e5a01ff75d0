"""500 hostile texts wherever a text can stand, and every page that shows one: nothing runs, nothing is loaded from elsewhere, and the policy is never even needed.

A text that reached a page as markup would load, run, or be stopped by the Content-Security-Policy, which says so: each is a finding.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from django.urls import reverse
from playwright.sync_api import Dialog, Page, Request

from console.editor.parts.catalogue import PARTS
from console.pages.fabrics.views import TABS
from console.pages.runs.page import VIEWS
from simulator.endpoint import ScriptedEndpoint
from tests.e2e.conftest import NOWHERE
from tests.e2e.installation import Installation, installed
from tests.e2e.texts.hostile_world import LOOKS, script
from tests.e2e.texts.payloads import COUNT, payloads

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PARTS_OF_ALL = 10
"""One test looks at so many of the 500: every tenth, from its own number on."""
WATCH = """
window.__found = [];
addEventListener("securitypolicyviolation", event => window.__found.push(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
LEFT = """() => {
  const found = window.__found.slice();
  if (window.__pwn) found.push("a script ran");
  if (window.polluted || ({}).polluted) found.push("a prototype was changed");
  for (const one of document.querySelectorAll("*"))
    for (const {name} of one.attributes)
      if (name.startsWith("on") || name.startsWith("hx-on")) found.push(`${one.tagName} has ${name}`);
  for (const one of document.querySelectorAll("iframe, frame, object, embed, base, portal, fencedframe"))
    found.push(`there is a ${one.tagName}`);
  return found;
}"""


class Listener(BaseHTTPRequestHandler):
    """Keeps who came."""

    came: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Nothing is there."""
        self.came.append(f"{self.command} {self.path}")
        self.send_error(404)

    do_POST = do_HEAD = do_OPTIONS = do_GET  # noqa: N815 - As http.server calls them.

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def listener() -> Iterator[str]:
    """Where no request should come: host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class World:
    """An installation full of hostile texts."""

    installation: Installation
    runs: list[str]
    fabrics: list[str]
    drafts: list[str]


@pytest.fixture(params=range(PARTS_OF_ALL))
def world(request, listener, tmp_path_factory) -> Iterator[World]:
    """One whose texts are a tenth of all."""
    texts = payloads(listener)[request.param :: PARTS_OF_ALL]
    data = tmp_path_factory.mktemp("data")
    with ScriptedEndpoint(script(texts)) as endpoint:
        root = f"http://{endpoint.authority}"
        known = {"FABRIC_MODEL_URL": endpoint.url, "FABRIC_MODEL": "m", "FABRIC_ALLOWED_HOSTS": endpoint.authority}
        with installed(data, **known) as found:
            asked = data / "texts.json"
            asked.write_text(json.dumps({"texts": texts, "root": root}))
            code = f"from tests.e2e.texts.hostile_world import fill; fill({str(asked)!r})"
            said = found.manage("django", "shell", "--verbosity", "0", "-c", code)
            yield World(found, **json.loads(said.splitlines()[-1]))


@pytest.fixture
def installation(world) -> Installation:
    """The one that is full of them."""
    return world.installation


@dataclass
class Watched:
    """A page and what was found wrong on those that it went to."""

    page: Page
    base: str
    found: list[str] = field(default_factory=list)
    looked_at: int = 0

    def __post_init__(self) -> None:
        self.page.add_init_script(WATCH)
        self.page.on("dialog", self._asked_by_dialog)
        self.page.on("popup", lambda one: self.found.append(f"a window: {one.url}"))
        self.page.context.on("request", self._asked)

    def _asked_by_dialog(self, one: Dialog) -> None:
        self.found.append(f"a dialog: {one.message}")
        one.dismiss()

    def _asked(self, one: Request) -> None:
        if not one.url.startswith((f"{self.base}/", "blob:", "data:")):
            self.found.append(f"{self.page.url} asked {one.url[:200]}")

    def look(self, address: str) -> None:
        """Goes there and looks."""
        answered = self.page.goto(address)
        assert answered is not None
        assert answered.status in (200, 410), f"{address}: {answered.status}"
        assert self.page.url.startswith(f"{self.base}/")
        self.found += [f"{address}: {one}" for one in self.page.evaluate(LEFT)]
        self.looked_at += 1


def addresses(world: World) -> Iterator[str]:
    """All pages that show one of the texts."""
    for name in (
        "overview",
        "runs",
        "reviews",
        "reviews-history",
        "fabrics",
        "scenarios",
        "drills",
        "notifications",
        "protections",
    ):
        yield reverse(name)
    yield f"{reverse('search')}?q=window.__pwn"
    views = [name for name, _ in VIEWS]
    for number, run_id in enumerate(world.runs):
        run = reverse("run", args=[run_id])
        yield run
        yield f"{run}?view={views[number % len(views)]}"
        yield reverse("run-event", args=[run_id, 1 + number % 5])
    for (review,) in world.installation.stored("SELECT id FROM fabric_review"):
        yield reverse("review", args=[review])
    for number, name in enumerate(world.fabrics):
        yield f"{reverse('fabric', args=[name])}?tab={list(TABS)[number % len(TABS)]}"
        yield f"{reverse('start')}?fabric={name}&example=1"
    for tab in TABS:
        yield f"{reverse('fabric', args=[LOOKS])}?tab={tab}"
    for name in world.drafts:
        yield reverse("fabric-draft", args=[name])
        for part in PARTS:
            yield f"{reverse('fabric-draft', args=[name])}?part={part}"
    for (scenario,) in world.installation.stored("SELECT name FROM drills_storedscenario"):
        yield reverse("scenario", args=[scenario])


def test_nothing_runs_and_nothing_is_loaded(visit, world, listener):
    watched = Watched(visit(NOWHERE).page, world.installation.base)
    for address in addresses(world):
        watched.look(address)
    assert watched.found == []
    assert Listener.came == []
    assert len(world.runs) == COUNT // PARTS_OF_ALL
    assert watched.looked_at > 5 * len(world.runs)


@pytest.mark.parametrize("world", [0], indirect=True)
def test_the_instrument_finds_what_it_is_for(visit, world, listener):
    """A page that loads from elsewhere, or holds an element that could, is found out."""
    watched = Watched(visit(NOWHERE).page, world.installation.base)
    watched.look(reverse("overview"))
    assert watched.found == []
    # No text becomes elements here (Trusted Types), so they are made one by one.
    watched.page.evaluate(
        "where => { const one = new Image(); one.src = `http://${where}/i.png`; document.body.append(one); "
        "document.body.append(document.createElement('base')); }",
        listener,
    )
    watched.page.wait_for_function("window.__found.length > 0")
    found = watched.page.evaluate(LEFT)
    assert any(one.startswith("policy: img-src") for one in found), found
    assert "there is a BASE" in found
