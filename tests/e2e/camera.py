"""Takes pictures of an installation's pages, wide and narrow, light and dark, and says what there is to complain about each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Error, Page, StorageState

from tests.console.launch.started_processes import PATIENCE_S
from tests.e2e import scenes
from tests.e2e.accessibility import findings
from tests.e2e.chromium import still
from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

WIDTHS = {"1440": (1440, 900), "390": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
UNPLUGGED = re.compile("ERR_INTERNET_DISCONNECTED|htmx:error: Failed to fetch")
"""What the browser says of a network that a scene takes away."""


@dataclass
class Camera:
    """Takes the pictures of one installation."""

    browser: Browser
    home: Installation
    out: Path
    wanted: tuple[str, ...] = ()
    state: StorageState | None = None
    """Cookies of who looks; None for a stranger."""
    taken: int = 0
    complaints: int = 0
    _said: list[str] = field(default_factory=list)

    @contextmanager
    def page(self, width: str = "1440") -> Iterator[Page]:
        """A page of who looks. What its browser complains about is kept."""
        wide, high = WIDTHS[width]
        context = still(
            self.browser,
            base_url=self.home.base,
            viewport={"width": wide, "height": high},
            storage_state=self.state,
        )
        context.set_default_timeout(1_000 * PATIENCE_S)
        page = context.new_page()
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.on("console", lambda line: self._said.append(line.text) if line.type == "error" else None)
        try:
            yield page
        finally:
            context.close()

    def chosen(self, scenes: Iterable[Scene]) -> list[Scene]:
        """Those whose names were asked for."""
        return [one for one in scenes if not self.wanted or any(part in one.name for part in self.wanted)]

    def shoot(self, scenes: Iterable[Scene]) -> None:
        """Every scene in both widths and schemes."""
        chosen = self.chosen(scenes)
        for width in WIDTHS if chosen else ():
            for scene in chosen:
                with self.page(width) as page:
                    self._take(page, scene, width)

    def _take(self, page: Page, scene: Scene, width: str) -> None:
        self._said.clear()
        try:
            answer = page.goto(scene.address)
            page.wait_for_load_state("load")
            scene.act(page)
        except Error as error:
            self._report(scene.name, width, [f"the scene failed: {error.message.splitlines()[0]}"])
            return
        expected = f"status of {scene.status}"
        begun = answer.status if answer else 0
        odd = [] if begun == (scene.status if scene.act is scenes.nothing else 200) else [f"answered {begun}"]
        said = [line for line in self._said if expected not in line and not UNPLUGGED.search(line)]
        page.evaluate("scrollTo(0, 0)")
        whole = not page.locator("dialog[open]").count()  # What lies below a dialog's shade is not part of it.
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            name = f"{scene.name}-{width}-{scheme}"
            page.screenshot(path=self.out / f"{name}.png", full_page=whole)
            sideways = page.evaluate("document.documentElement.scrollWidth") - WIDTHS[width][0]
            wide = [f"scrolls {sideways} px sideways"] if sideways > 0 else []
            self._report(name, width, [*odd, *said, *wide, *findings(page, contrast_alone=scheme != SCHEMES[0])])
            self.taken += 1

    def _report(self, name: str, width: str, found: list[str]) -> None:
        self.complaints += len(found)
        print(json.dumps({"picture": name, "complaints": found}), flush=True)

    def for_readme(self, address: str) -> None:
        """The picture at the top of README.md: what is seen without scrolling."""
        for scheme in SCHEMES:
            with self.page() as page:
                page.set_viewport_size({"width": 1280, "height": 900})
                page.emulate_media(color_scheme=scheme)
                page.goto(address)
                page.wait_for_load_state("load")
                page.screenshot(path=self.out / f"readme-{scheme}.png")
