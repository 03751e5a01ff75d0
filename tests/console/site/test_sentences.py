"""Messages of services as sentences of pages."""

from __future__ import annotations

import pytest

from console.site.sentences import sentence


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("it has ended", "It has ended."),
        ("Is it there?", "Is it there?"),
        ("http://127.0.0.1:8430/tool answered 503", "http://127.0.0.1:8430/tool answered 503."),
        ("postgresql://db is away", "postgresql://db is away."),
        ("http is the protocol", "Http is the protocol."),
        ("", "."),
    ],
)
def test_a_message_gets_a_capital_and_an_end_and_an_address_keeps_its_letters(message, shown):
    assert sentence(message) == shown
