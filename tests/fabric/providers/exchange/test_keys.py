"""Stored keys: which one goes out, where it goes and where it never goes, over real HTTP on this machine's loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.providers.exchange.keys import FRESH_S, HOLDS_S, USED_EVERY_S, KeyRing, KeysUnreadable, StoredKey, Where
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.asking import KEY, request
from tests.fabric.providers.wires import ALL, OPENAI, Spoken

STORED = "sk-stored-9876543210zyxwvu"
MINE, THEIRS = "workspace-1", "workspace-2"


@pytest.fixture(params=ALL, ids=lambda one: one.name)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    found: Spoken = request.param
    return found


def at(spoken: Spoken, endpoint: ScriptedEndpoint, workspace: str = MINE) -> Where:
    return workspace, spoken.name, f"http://{endpoint.authority}"


def ring(*places: Where, secret: str = STORED) -> KeyRing:
    return KeyRing(lambda: {place: StoredKey("k1", secret) for place in places})


def asked(
    spoken: Spoken, own: ScriptedEndpoint, keys: KeyRing, *, to: ScriptedEndpoint | None = None, workspace: str = MINE
) -> Any:
    """One ask by an adapter whose operator's endpoint is ``own``; ``to``: the address that the fabric names."""

    async def go() -> Any:
        gate = Gate.trust_hosts([to.authority] if to else [])
        port = spoken.port(own, gate=gate, keys=keys)
        try:
            spec = spoken.spec(base_url=spoken.url(to)) if to else spoken.spec()
            return await asyncio.wait_for(port.ask(request(model=spec, workspace=workspace)), 60)
        finally:
            await port.aclose()
            await keys.settle()

    return asyncio.run(go())


def test_the_stored_key_goes_before_the_operators(spoken):
    with ScriptedEndpoint([spoken.answer("ok")]) as own:
        assert isinstance(asked(spoken, own, ring(at(spoken, own))), ModelReplied)
        assert [spoken.key_of(one) for one in own.received] == [STORED]


@pytest.mark.parametrize("which", ["of another workspace", "for another host", "for another protocol", "none"])
def test_where_none_is_stored_the_operators_goes_to_its_own_host(spoken, which):
    with ScriptedEndpoint([spoken.answer("ok")]) as own:
        places: Mapping[str, tuple[Where, ...]] = {
            "of another workspace": (at(spoken, own, THEIRS),),
            "for another host": ((MINE, spoken.name, "http://127.0.0.1:9"),),
            "for another protocol": ((MINE, "another", f"http://{own.authority}"),),
            "none": (),
        }
        asked(spoken, own, ring(*places[which]))
        assert [spoken.key_of(one) for one in own.received] == [KEY]


def test_a_request_without_a_workspace_has_no_stored_key(spoken):
    with ScriptedEndpoint([spoken.answer("ok")]) as own:
        asked(spoken, own, ring(at(spoken, own), ("", spoken.name, f"http://{own.authority}")), workspace="")
        assert [spoken.key_of(one) for one in own.received] == [KEY]


def test_it_goes_to_the_very_host_that_it_is_for_and_to_no_port_beside_it(spoken):
    with (
        ScriptedEndpoint([spoken.answer("a")]) as own,
        ScriptedEndpoint([spoken.answer("b")]) as other,
        ScriptedEndpoint([spoken.answer("c")]) as beside,
    ):
        keys = ring(at(spoken, other))
        assert isinstance(asked(spoken, own, keys, to=other), ModelReplied)
        assert isinstance(asked(spoken, own, keys, to=beside), ModelReplied)
        assert [spoken.key_of(one) for one in other.received] == [STORED]
        # Neither the stored one nor the operator's.
        assert [spoken.key_of(one) for one in beside.received] == [""]
        assert own.received == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_it_does_not_follow_a_redirect(spoken, status):
    with ScriptedEndpoint([spoken.answer("elsewhere")]) as elsewhere:
        moved = Step(status=status, headers={"Location": f"http://{elsewhere.authority}/v1"}, body=b"")
        with ScriptedEndpoint([moved]) as own:
            result = asked(spoken, own, ring(at(spoken, own)))
            assert isinstance(result, CallFailed)
            assert (result.cause, result.status) == (Cause.BAD_CONFIGURATION, status)
            assert "redirects are not followed" in result.message
            assert [spoken.key_of(one) for one in own.received] == [STORED]
            assert elsewhere.received == []


@pytest.mark.parametrize("status", [200, 401])
def test_it_is_never_shown(spoken, status):
    step = spoken.answer(f"it is {STORED}") if status == 200 else spoken.refusal(status, f"bad key {STORED}", STORED)
    with ScriptedEndpoint([step]) as own:
        result = asked(spoken, own, ring(at(spoken, own)))
        assert STORED not in str(result)
        assert "[secret]" in str(result)
        if status == 401:
            assert "the key stored for it was sent: store another under Models and prices" in result.message


def test_one_that_does_not_open_asks_no_person_and_says_what_to_do(spoken):
    with ScriptedEndpoint([spoken.answer("ok")]) as own:
        result = asked(spoken, own, ring(at(spoken, own), secret=""))
        assert (result.cause, result.never_sent, own.received) == (Cause.AUTH, True, [])
        assert "it needs to be set again" in result.message


def test_while_stored_keys_cannot_be_read_no_endpoint_is_asked(spoken):
    def away() -> dict[Where, StoredKey]:
        raise OSError("the database is away")

    with ScriptedEndpoint([spoken.answer("ok")]) as own:
        result = asked(spoken, own, KeyRing(away))
        assert (result.cause, own.received, result.never_sent) == (Cause.NETWORK, [], True)
        assert "could not be read (OSError: the database is away)" in result.message


def test_a_read_that_takes_too_long_ends_with_the_calls_deadline():
    done = threading.Event()

    def slow() -> dict[Where, StoredKey]:
        done.wait(60)
        return {}

    async def go(own: ScriptedEndpoint) -> Any:
        port = OPENAI.port(own, keys=KeyRing(slow))
        result = await port.ask(request(0.2, model=OPENAI.spec(), workspace=MINE))
        done.set()
        await port.aclose()
        return result

    with ScriptedEndpoint([OPENAI.answer("ok")]) as own:
        result = asyncio.run(go(own))
        assert (result.cause, own.received, result.never_sent) == (Cause.NETWORK, [], True)
        assert "still being read when the deadline came" in result.message


# -- the ring --

PLACE: Where = (MINE, "openai", "https://api.example.org:443")


class Table:
    """A table of keys, a clock, and what was noted."""

    def __init__(self) -> None:
        self.rows: dict[Where, StoredKey] = {}
        self.at = 0.0
        self.reads = 0
        self.broken = False
        self.noted: list[str] = []
        self.ring = KeyRing(self._load, self.noted.append, lambda: self.at)

    def _load(self) -> dict[Where, StoredKey]:
        self.reads += 1
        if self.broken:
            raise OSError("away")
        return dict(self.rows)

    async def secret(self, after_s: float = FRESH_S) -> str:
        self.at += after_s
        found = await self.ring.find(PLACE)
        await self.ring.settle()
        return found.secret if found else ""


def run(steps: Callable[[Table], Any]) -> Any:
    return asyncio.run(steps(Table()))


def test_a_key_that_is_stored_replaced_and_deleted_is_known_a_second_later():
    async def steps(table: Table) -> list[str]:
        seen = [await table.secret()]
        for row in (StoredKey("k", "first"), StoredKey("k", "second"), None):
            table.rows = {PLACE: row} if row else {}
            seen.append(await table.secret(FRESH_S))
        return seen

    assert run(steps) == ["", "first", "second", ""]


def test_it_is_not_read_for_every_call_and_once_for_those_that_come_together():
    async def steps(table: Table) -> int:
        await asyncio.gather(*(table.ring.find(PLACE) for _ in range(50)))
        for _ in range(50):
            await table.secret(after_s=FRESH_S / 100)
        return table.reads

    assert run(steps) == 1


def test_what_was_read_holds_for_a_minute_while_the_database_is_away():
    async def steps(table: Table) -> tuple[str, str]:
        table.rows = {PLACE: StoredKey("k", "kept")}
        await table.secret()
        table.broken = True
        held = await table.secret(HOLDS_S / 2)
        with pytest.raises(KeysUnreadable):
            await table.secret(HOLDS_S)
        table.broken = False
        return held, await table.secret()

    assert run(steps) == ("kept", "kept")


def test_its_use_is_noted_once_a_minute_and_never_in_the_calls_way():
    async def steps(table: Table) -> list[str]:
        table.rows = {PLACE: StoredKey("k", "kept")}
        for _ in range(5):
            await table.secret(USED_EVERY_S / 4)
        return table.noted

    assert run(steps) == ["k", "k"]


def test_a_use_that_cannot_be_noted_fails_no_call(caplog):
    def refuse(_: str) -> None:
        raise OSError("read-only")

    async def go() -> StoredKey | None:
        keys = KeyRing(lambda: {PLACE: StoredKey("k", "kept")}, refuse)
        found = await keys.find(PLACE)
        await keys.settle()
        return found

    assert asyncio.run(go()) == StoredKey("k", "kept")
    assert "was not noted: read-only" in caplog.text


def test_a_key_is_not_in_its_own_words():
    assert STORED not in repr(StoredKey("k", STORED))
