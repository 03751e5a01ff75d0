"""The system's Chromium, without what costs much and is never looked at."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, BrowserType

UNSEEN = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,SpareRendererForSitePerProcess"
"""Features that give every window processes of their own: two lists below an address line that no test types into, and a page that is not there yet."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--kiosk")
"""Nothing is drawn by a graphics card that is only played, and windows have no bars."""
BEHIND = {"/usr/bin/chromium": "/usr/lib/chromium/chromium"}
"""Debian's script, which turns the graphics card and extensions on, and the program that it starts."""


def chromium_path() -> str | None:
    """Where the system's Chromium is; None when there is none. TEST_CHROMIUM names one."""
    found = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    behind = BEHIND.get(found or "")
    return behind if behind and os.access(behind, os.X_OK) else found


def launched(chromium: BrowserType) -> Browser:
    """A browser; there must be one."""
    path = chromium_path()
    assert path is not None, "no chromium is installed (TEST_CHROMIUM names one)"
    script = str(Path(__file__).with_suffix(".sh"))
    environ: dict[str, str | float | bool] = {**os.environ, "CHROMIUM": path, "UNSEEN": UNSEEN}
    return chromium.launch(executable_path=script, args=list(FLAGS), env=environ)


def still(browser: Browser, **options: Any) -> BrowserContext:
    """A browser profile in whose pages nothing moves by itself: no one would watch it. A flag that says so is overruled by Playwright."""
    return browser.new_context(**{"reduced_motion": "reduce", **options})
