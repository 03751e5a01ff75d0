"""The picture that an app reads: whatever a member's name holds, it is squares and no markup of its own."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from console.pages.people.account import qr

SHAPES = {"svg", "path", "g"}
HOSTILE = "</path></svg><script>alert(1)</script>"


@pytest.mark.parametrize("text", ["otpauth://totp/owner", HOSTILE, f'"{HOSTILE}', f"]]>{HOSTILE}&amp;"])
def test_a_hostile_text_is_drawn_and_never_written(text: str) -> None:
    picture = qr(text)
    tags = {found.tag.rpartition("}")[2] for found in ET.fromstring(picture).iter()}
    assert tags <= SHAPES
    assert not re.search(r"script|alert|otpauth|\son\w+=", picture)
    assert picture != qr(text + "x")
