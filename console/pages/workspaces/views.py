"""Shows the workspace's policy: its rules for every fabric, its author, and the spending of capped keys.

The form becomes the JSON that the service reads, and back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.forms.controls.kinds import dollars, read_dollars, read_integer, read_lines
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.roles import Right, holders
from fabric.core.spec.policies.flow_policy import policy_limit
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import TIERS as TIER_WORDS
from fabric.core.workspace_policy.policy import LimitName, PolicyCaps, Protection, WorkspacePolicy
from fabric.core.workspace_policy.rules import RULES
from fabric.selectors.workspaces.policies import list_policies, standing_policy
from fabric.services.budgets.keys import key_budgets
from fabric.services.errors import Refused
from fabric.services.rights import SIGN_IN
from fabric.services.workspaces.policies import policy_set

WAIVERS = (
    ("author", "the fabric's author, with a reason"),
    ("four_eyes", "fabrics that have four eyes in all their tiers"),
    ("nobody", "no one"),
)
SAYS = {rule.field: rule.says for rule in RULES}


@require_http_methods(["GET", "HEAD", "POST"])
def policy(request: HttpRequest) -> HttpResponse:
    """Show the policy; POST sets it. 403: only for owners. 409: it changed meanwhile. 422: an invalid field.

    The page keeps the input.
    """
    if request.method != "POST":
        return _page(request)
    actor, expect = find_actor(request.user), request.POST.get("expect", "")
    try:
        if not (expect.isascii() and expect.isdecimal() and len(expect) < 10):
            raise Refused("the form was incomplete: load the page again", code="invalid", field="expect")
        stood = policy_set(actor=actor, policy=read_policy(request.POST), expect=int(expect))
    except Refused as refusal:
        if refusal.field == SIGN_IN:
            raise
        problems = [sentence(one) for one in refusal.problems]
        return _page(request, form_of_request(request.POST), problems, status=errors.STATUS[refusal.code])
    messages.success(request, f"Version {stood.number} of the policy is in force.")
    return redirect("policy")


def _page(
    request: HttpRequest, shown: PolicyForm | None = None, problems: list[str] | None = None, status: int = 200
) -> HttpResponse:
    actor = find_actor(request.user)
    stands = standing_policy(actor.workspace_id)
    context: dict[str, Any] = {
        "stands": stands,
        "form": shown or form_of_policy(stands.policy),
        "problems": problems or [],
        "says": SAYS,
        "waivers": WAIVERS,
        "may": actor.may(Right.POLICY),
        "who": holders(Right.POLICY),
        "versions": list_policies(actor.workspace_id),
        "budgets": key_budgets(actor),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "workspaces/policy.html", context, status=status)


LISTS = ("irreversible", "tools", "hosts")
CHARS_MAX = 100_000
TIERS = tuple(str(tier) for tier in Tier)
LIMITS: tuple[str, ...] = LimitName.__args__  # type: ignore[attr-defined]
PROTECTIONS: tuple[str, ...] = Protection.__args__  # type: ignore[attr-defined]
PERIODS = ("day", "month")
CAP_LABELS: Mapping[str, str] = {
    name: PolicyCaps.model_fields[f"{name}_micros"].title or "" for name in ("run_usd", "session_usd")
} | {f"tier_{tier}": f"{PolicyCaps.model_fields['tiers'].title} {TIER_WORDS[tier]}" for tier in TIERS}
LIMIT_LABELS: Mapping[str, str] = {f"limit_{name}": policy_limit(f"limits.{name}").title for name in LIMITS}
LABELS: Mapping[str, str] = {"keys": "Caps of keys", **CAP_LABELS, **LIMIT_LABELS}
"""Label of each field that takes a number."""
AMOUNT_MAX = 10**15


def read_policy(sent: QueryDict) -> JSON:
    """Return the policy of the form. Raises Refused invalid, with the field, for a number that cannot be read."""
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
    return read_lines(text)


def _dollars(sent: QueryDict, name: str) -> int | None:
    return _amount(sent.get(name, ""), read_dollars, name)


def _count(sent: QueryDict, name: str) -> int | None:
    return _amount(sent.get(name, ""), read_integer, name)


def _amount(text: str, read: Callable[[str], int], field: str) -> int | None:
    """Return a number; None where none is given."""
    try:
        amount = read(text) if text.strip() else None
    except ValueError as error:
        message = f"{LABELS.get(field, field)}: {text[:40]!r} cannot be read. {error}"
        raise Refused(message, code="invalid", field=field) from None
    if amount is not None and not 0 <= amount <= AMOUNT_MAX:
        message = f"{LABELS.get(field, field)}: {text[:40]!r} is too large or below zero"
        raise Refused(message, code="invalid", field=field)
    return amount


def _keys(sent: QueryDict) -> Iterator[tuple[str, JSON]]:
    """Yield a line an endpoint: ``https://api.openai.com:443 20/day 300/month``."""
    for line in _lines(sent, "keys"):
        origin, *given = line.split()
        caps = {}
        for one in given:
            usd, _, period = one.partition("/")
            if period not in PERIODS:
                message = f"{one[:40]!r} is no cap: write DOLLARS/day or DOLLARS/month, as in 20/day"
                raise Refused(message, code="invalid", field="keys")
            caps[f"{period}_usd_micros"] = _amount(usd or "-", read_dollars, "keys")
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
class PolicyForm:
    """Values of the form: from a policy, or as they were sent."""

    texts: Mapping[str, str]
    waivers: str
    four_eyes: list[Choice]
    protections: list[Choice]
    caps: list[Choice]
    limits: list[Choice]


def form_of_policy(policy: WorkspacePolicy) -> PolicyForm:
    """Return the form of the present policy."""
    texts = {name: "\n".join(getattr(policy, name) or ()) for name in LISTS}
    texts["keys"] = "\n".join(
        " ".join([origin, *(f"{_usd(amount)}/{period}" for period, amount in _list_periods(cap))])
        for origin, cap in policy.keys.items()
    )
    values = {
        "run_usd": _usd(policy.caps.run_usd_micros),
        "session_usd": _usd(policy.caps.session_usd_micros),
        **{f"tier_{tier}": _usd(policy.caps.tiers.get(Tier(tier))) for tier in TIERS},
        **{f"limit_{name}": str(policy.limits.get(name, "")) for name in LIMITS},  # type: ignore[call-overload]
    }
    return _shown(texts, policy.waivers, policy.four_eyes, policy.protections, values)


def form_of_request(sent: QueryDict) -> PolicyForm:
    """Return the form as it was sent, so that nothing has to be typed again."""
    texts = {name: sent.get(name, "")[:CHARS_MAX] for name in (*LISTS, "keys")}
    return _shown(texts, sent.get("waivers", ""), sent.getlist("four_eyes"), sent.getlist("protections"), sent)


def _list_periods(cap: Any) -> Iterator[tuple[str, int]]:
    for period in PERIODS:
        amount = getattr(cap, f"{period}_usd_micros")
        if amount is not None:
            yield period, amount


def _usd(micros: int | None) -> str:
    return "" if micros is None else dollars(micros)


def _shown(
    texts: Mapping[str, str], waivers: str, eyes: Any, kept: Any, values: Mapping[str, str] | QueryDict
) -> PolicyForm:
    return PolicyForm(
        texts,
        waivers,
        [Choice(tier, TIER_WORDS[tier], checked=tier in eyes) for tier in TIERS],
        [Choice(name, name.replace("_", " "), checked=name in kept) for name in PROTECTIONS],
        [Choice(name, label, values.get(name, "") or "") for name, label in CAP_LABELS.items()],
        [Choice(name, label, values.get(name, "") or "") for name, label in LIMIT_LABELS.items()],
    )
