"""Scenes of models and prices, by an installation of its own: one endpoint that can do all, one that refuses, vendors' with stored keys, and nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from simulator.endpoint import ScriptedEndpoint, refusal
from tests.e2e.installation import Installation, installed
from tests.e2e.scenes import Scene
from tests.fabric.services.models.scenes import DEAR, able, fabric

PAGE = "/models"
KEYED = """
from fabric.services.models.keys import key_set
from fabric.services.actors import owner_actor
from fabric.models import ProviderKey
from tests.people import member
actor = owner_actor()
places = {("openai", "https://api.openai.com/v1"): "sk-an-example-Qz7x", ("anthropic", "https://api.anthropic.com"): "sk-an-example-b0Fw",
    ("google", "https://gateway.example.org/gemini"): "sk-an-example-9aTe"}
for (provider, host), key in places.items():
    key_set(actor=actor, provider=provider, host=host, key=key)
ProviderKey.objects.filter(provider="openai").update(added_at=1_700_000_000_000_000)
ProviderKey.objects.filter(provider="google").update(host="https://moved.example.org:443")
member("vera", "viewer")
"""


@contextmanager
def asking(data: Path) -> Iterator[tuple[Installation, ScriptedEndpoint]]:
    """An installation with an endpoint of its own that can do all, and another one, which refuses whatever it is asked."""
    refusing = [refusal(401, "Incorrect API key provided: check it and try again.", code="invalid_api_key")]
    with ScriptedEndpoint(able, keep=False) as own, ScriptedEndpoint(refusing, keep=False) as other:
        settings = {
            "FABRIC_MODEL_URL": own.url,
            "FABRIC_MODEL": "qwen3-32b-instruct",
            "FABRIC_MODEL_KEY": "sk-of-the-environment-1",
            "FABRIC_ALLOWED_HOSTS": other.authority,
        }
        with installed(data, **settings) as home:
            yield home, other


def fill(home: Installation, other: ScriptedEndpoint, page: Page) -> None:
    """Fabrics that ask them and vendors, keys of which one does not open any more, and a test call of each endpoint that is there."""
    price = "price: {input_usd_per_mtok: 0.08, output_usd_per_mtok: 0.24}"
    own = f"model: qwen3-32b-instruct, {price}, capabilities: [reasoning], context_tokens: 32768"
    vendor = "base_url: 'https://api.openai.com/v1'"
    home.publish(fabric("contract-advice", own, f"model: gpt-4o-mini, {vendor}", f"model: gpt-4.1, {vendor}, {DEAR}"))
    claude = "provider: anthropic, model: claude-sonnet-4-5, capabilities: [vision, reasoning]"
    home.publish(fabric("claims-desk", claude, "provider: google, model: gemini-2.5-flash"))
    free = "price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
    home.publish(fabric("night-shift", f"model: local-9b, base_url: '{other.url}', {free}, tool_calls: false"))
    home.manage("django", "shell", "--verbosity", "0", "-c", KEYED)
    for name in ("contract-advice", "night-shift"):
        page.goto(PAGE)
        asked = page.get_by_role("row").filter(has_text=name).filter(has_not_text="gpt-")
        asked.get_by_role("button", name="Test").click()
        page.locator(".banner.flash").wait_for()


def _refused(page: Page) -> None:
    page.locator("#key-host").fill("api.openai.com")
    page.locator("#key-key").fill("short")
    page.locator("#key-store").click()
    page.locator("#key-e-host").wait_for()


def _stored(page: Page) -> None:
    page.locator("#key-host").fill("https://api.mistral.ai/v1")
    page.locator("#key-key").fill("sk-an-example-w1Lk")
    page.locator("#key-store").click()
    page.locator(".banner.flash").wait_for()


NOTHING = (Scene("models-nothing", PAGE),)
FULL = (
    Scene("models", PAGE),
    Scene("models-found", f"{PAGE}?find=claims"),
    Scene("models-not-found", f"{PAGE}?find=zebra"),
    Scene("models-key-refused", PAGE, _refused, 422),
    Scene("models-replacing", PAGE, lambda page: page.locator("summary[id^=replace]").first.click()),
    Scene("models-deleting", PAGE, lambda page: page.locator("summary[id^=delete]").first.click()),
    Scene("models-stored", PAGE, _stored),
)
LOOKING = (Scene("models-looking-on", PAGE),)
