"""The form of a workspace's policy: what a browser sent as the JSON that the service reads, and the policy as the form shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from django.http import QueryDict

from fabric.core.taxonomy import Tier
from fabric.core.workspace_policy.policy import LimitName, Protection, WorkspacePolicy
from fabric.services.errors import Refused

JSON = Any
LISTS = ("irreversible", "tools", "hosts")
CHARS_MAX = 100_000
TIERS = tuple(str(tier) for tier in Tier)
LIMITS: tuple[str, ...] = LimitName.__args__  # type: ignore[attr-defined]
PROTECTIONS: tuple[str, ...] = Protection.__args__  # type: ignore[attr-defined]
PERIODS = ("day", "month")
MICROS = 1_000_000


def read(sent: QueryDict) -> JSON:
    """The policy that a form says. Raises Refused invalid, with the field, for a number that is none."""
    found: dict[str, JSON] = {name: lines for name in LISTS if (lines := _lines(sent, name))}
    for name, known in (("four_eyes", TIERS), ("protections", PROTECTIONS)):
        if given := [one for one in known if one in sent.getlist(name)]:
            found[name] = given
    if waivers := sent.get("waivers", ""):
        found["waivers"] = waivers
    caps: dict[str, JSON] = {
        name: micros for name in ("run_usd", "session_usd") if (micros := _dollars(sent, name)) is not None
    }
    caps = {f"{name}_micros": amount for name, amount in caps.items()}
    tiers = {tier: micros for tier in TIERS if (micros := _dollars(sent, f"tier_{tier}")) is not None}
    found["caps"] = caps | ({"tiers": tiers} if tiers else {})
    found["limits"] = {name: most for name in LIMITS if (most := _count(sent, f"limit_{name}")) is not None}
    found["keys"] = dict(_keys(sent))
    return found


def _lines(sent: QueryDict, name: str) -> list[str]:
    text = sent.get(name, "")
    if len(text) > CHARS_MAX:
        raise Refused(
            f"{name} has {len(text):,} characters; at most {CHARS_MAX:,} are taken", code="too_large", field=name
        )
    return [line.strip() for line in text.splitlines() if line.strip()]


def _dollars(sent: QueryDict, name: str) -> int | None:
    text = sent.get(name, "").strip()
    return _micros(text, name) if text else None


def _micros(text: str, field: str) -> int:
    try:
        amount = Decimal(text.removeprefix("$")) * MICROS
        if amount.is_finite() and 0 <= amount <= 10**15:
            return int(amount)
    except InvalidOperation:
        pass
    raise Refused(f"{text[:40]!r} is no amount of dollars: give a number such as 12.50", code="invalid", field=field)


def _count(sent: QueryDict, name: str) -> int | None:
    text = sent.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise Refused(f"{text[:40]!r} is no count: give a whole number", code="invalid", field=name)
    return int(text)


def _keys(sent: QueryDict) -> Iterator[tuple[str, JSON]]:
    """A line an endpoint: ``https://api.openai.com:443 20/day 300/month``."""
    for line in _lines(sent, "keys"):
        origin, *given = line.split()
        caps = {}
        for one in given:
            usd, _, period = one.partition("/")
            if period not in PERIODS:
                message = f"{one[:40]!r} is no cap: write DOLLARS/day or DOLLARS/month, as in 20/day"
                raise Refused(message, code="invalid", field="keys")
            caps[f"{period}_usd_micros"] = _micros(usd, "keys")
        if not caps:
            message = f"{origin[:80]!r} has no cap: write ENDPOINT DOLLARS/day DOLLARS/month in one line"
            raise Refused(message, code="invalid", field="keys")
        yield origin, caps


@dataclass(frozen=True, slots=True)
class Choice:
    """One box or number of the form."""

    name: str
    label: str
    value: str = ""
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """What the form shows: of a policy, or what was sent."""

    texts: Mapping[str, str]
    waivers: str
    four_eyes: list[Choice]
    protections: list[Choice]
    caps: list[Choice]
    limits: list[Choice]


def of_policy(policy: WorkspacePolicy) -> Shown:
    """The form of a policy as it stands."""
    texts = {name: "\n".join(getattr(policy, name) or ()) for name in LISTS}
    texts["keys"] = "\n".join(
        " ".join([origin, *(f"{_usd(amount)}/{period}" for period, amount in _of_periods(cap))])
        for origin, cap in policy.keys.items()
    )
    values = {
        "run_usd": _usd(policy.caps.run_usd_micros),
        "session_usd": _usd(policy.caps.session_usd_micros),
        **{f"tier_{tier}": _usd(policy.caps.tiers.get(Tier(tier))) for tier in TIERS},
        **{f"limit_{name}": str(policy.limits.get(name, "")) for name in LIMITS},  # type: ignore[call-overload]
    }
    return _shown(texts, policy.waivers, policy.four_eyes, policy.protections, values)


def of_sent(sent: QueryDict) -> Shown:
    """The form as it was sent, so that nothing has to be typed again."""
    texts = {name: sent.get(name, "")[:CHARS_MAX] for name in (*LISTS, "keys")}
    return _shown(texts, sent.get("waivers", ""), sent.getlist("four_eyes"), sent.getlist("protections"), sent)


def _of_periods(cap: Any) -> Iterator[tuple[str, int]]:
    for period in PERIODS:
        amount = getattr(cap, f"{period}_usd_micros")
        if amount is not None:
            yield period, amount


def _usd(micros: int | None) -> str:
    return "" if micros is None else f"{Decimal(micros) / MICROS:f}"


def _shown(
    texts: Mapping[str, str], waivers: str, eyes: Any, kept: Any, values: Mapping[str, str] | QueryDict
) -> Shown:
    words = {"run_usd": "A run", "session_usd": "A session"} | {
        f"tier_{tier}": f"A run in tier {tier.replace('_', '-')}" for tier in TIERS
    }
    return Shown(
        texts,
        waivers,
        [Choice(tier, tier.replace("_", "-"), checked=tier in eyes) for tier in TIERS],
        [Choice(name, name.replace("_", " "), checked=name in kept) for name in PROTECTIONS],
        [Choice(name, label, values.get(name, "") or "") for name, label in words.items()],
        [Choice(f"limit_{name}", name.replace("_", " "), values.get(f"limit_{name}", "") or "") for name in LIMITS],
    )
