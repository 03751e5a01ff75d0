"""A secret of a variable is known from the start, each variable's: the program masks it wherever it is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from console.launch.variables.table import SECRETS
from console.site import log_output as known
from fabric.secrets.known_secrets import KNOWN, MASK

SECRET = "canary-0123456789abcdef"
HEX = "0123456789abcdef" * 4
GIVEN = {
    "DATABASE_URL": (f"postgresql://flow:{SECRET}@db.example.org/flow", SECRET),
    "CELERY_BROKER_URL": (f"redis://:{SECRET}@broker.example.org/0", SECRET),
    "CHANNEL_URL": (f"rediss://flow:{SECRET}@layer.example.org/1", SECRET),
    "FABRIC_NOTIFY_WEBHOOKS": (f"https://hooks.example.org/a, https://hooks.example.org/services/{SECRET}?x=1", SECRET),
    "FABRIC_WEBHOOK_SECRET": (f"whsec_{SECRET}", SECRET),
    "FABRIC_KEY_RING": (f"{'ab' * 32},{HEX.upper()}", HEX),
    "FABRIC_AUDIT_KEY": (HEX.upper(), HEX),
}
"""The value of a variable, and what is secret of it; of each other variable it is all."""


@pytest.fixture
def again() -> Iterator[None]:
    """The secrets that this process knew before."""
    yield
    known.learn_secrets({"SECRET_KEY": settings.SECRET_KEY}, {})


@pytest.mark.usefixtures("again")
@pytest.mark.parametrize("name", SECRETS)
def test_what_is_secret_of_a_variable_is_masked(monkeypatch: Any, name: str) -> None:
    for other in SECRETS:
        monkeypatch.delenv(other, raising=False)
    given, secret = GIVEN.get(name, (SECRET, SECRET))
    known.learn_secrets({}, {})
    assert KNOWN.mask_text(f"it said {secret} here") == f"it said {secret} here"
    monkeypatch.setenv(name, given)
    known.learn_secrets({}, {})
    assert KNOWN.mask_text(f"it said {secret} here") == f"it said {MASK} here"
    assert (
        KNOWN.mask_text("at db.example.org, hooks.example.org and flow")
        == "at db.example.org, hooks.example.org and flow"
    )


@pytest.mark.usefixtures("again")
def test_each_word_of_a_tool_s_variable_is_masked() -> None:
    known.learn_secrets({}, {"CRM_TOKEN": f"Bearer {SECRET}-of-a-tool"})
    assert KNOWN.mask_text(f"{SECRET}-of-a-tool") == MASK
