"""The page of the workspace's policy: what holds for every fabric, who set it, what is spent of the caps of keys."""

from __future__ import annotations

import time
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.policy_form import Shown, of_policy, of_sent, read
from fabric.core.roles import Right, holders
from fabric.core.workspace_policy.rules import RULES
from fabric.selectors.workspace_policies import policies_of, standing_policy
from fabric.services.errors import Refused
from fabric.services.key_budgets import key_budgets
from fabric.services.rights import SIGN_IN
from fabric.services.workspace_policies import policy_set

WAIVERS = (
    ("author", "the fabric's author, with a reason"),
    ("four_eyes", "fabrics that have four eyes in all their tiers"),
    ("nobody", "nobody"),
)
SAYS = {rule.field: rule.says for rule in RULES}


@require_http_methods(["GET", "HEAD", "POST"])
def policy(request: HttpRequest) -> HttpResponse:
    """The policy; POST sets it. 403: it is for owners; 409: another version stands by now; 422: a field cannot be taken. Nothing has to be typed again."""
    if request.method != "POST":
        return _page(request)
    actor, expect = actor_of(request.user), request.POST.get("expect", "")
    try:
        if not (expect.isascii() and expect.isdecimal() and len(expect) < 10):
            raise Refused("the form was not whole: load the page again", code="invalid", field="expect")
        stood = policy_set(actor=actor, policy=read(request.POST), expect=int(expect))
    except Refused as refusal:
        if refusal.field == SIGN_IN:
            raise
        problems = [sentence(one) for one in refusal.problems]
        return _page(request, of_sent(request.POST), problems, status=errors.STATUS[refusal.code])
    messages.success(request, f"Version {stood.number} of the policy holds from now on.")
    return redirect("policy")


def _page(
    request: HttpRequest, shown: Shown | None = None, problems: list[str] | None = None, status: int = 200
) -> HttpResponse:
    actor = actor_of(request.user)
    stands = standing_policy(actor.workspace_id)
    context: dict[str, Any] = {
        "stands": stands,
        "form": shown or of_policy(stands.policy),
        "problems": problems or [],
        "says": SAYS,
        "waivers": WAIVERS,
        "may": actor.may(Right.POLICY),
        "who": holders(Right.POLICY),
        "versions": policies_of(actor.workspace_id),
        "budgets": key_budgets(actor),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "policy/page.html", context, status=status)
