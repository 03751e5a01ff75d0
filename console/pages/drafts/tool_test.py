"""Serves the page that sends a test request of a draft's HTTP tool."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from console.forms.values.form import MARK, PRESS, TypedForm
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.spec.tools import ToolSpec
from fabric.core.texts.text import parse_json_object
from fabric.core.values.units import JSON
from fabric.selectors.workspaces.policies import standing_policy
from fabric.services.drafts.tool_tests import WITHIN_S, ToolTestResult, find_hindrance, tool_get, tool_test
from fabric.services.errors import Refused

AGREED, TEXT = "agreed", "arguments"


@require_http_methods(["GET", "HEAD", "POST"])
def test(request: HttpRequest, name: str, tool: str) -> HttpResponse:
    """Show the form of a tool's arguments; POST sends the request and shows its answer."""
    actor = find_actor(request.user)
    spec = tool_get(actor, name, tool)
    sent = request.POST if request.method == "POST" else None
    form = TypedForm(spec.parameters, {}, sent)
    text = sent.get(TEXT, "") if sent is not None else "{}"
    said: list[str] = []
    result, status = None, 200
    if sent is not None and not sent.get(PRESS):
        args, said = _read_arguments(form, sent.get(TEXT))
        try:
            if said:
                raise Refused(said[0], code="invalid", field=TEXT)
            result = tool_test(actor=actor, fabric=name, name=tool, args=args, agreed=bool(sent.get(AGREED)))
        except Refused as refusal:
            if refusal.code not in ("invalid", "unavailable"):
                raise
            said, status = [sentence(refusal.message)], errors.STATUS[refusal.code]
    if result is not None and not form.rows:  # What was sent is where the next request begins.
        form = TypedForm(spec.parameters, form.value)
    hindrance = find_hindrance(spec, standing_policy(actor.workspace_id).policy)
    context = {
        "name": name,
        "tool": spec,
        "form": form,
        "fits": bool(form.parts),
        "text": text,
        "agreed": sent is not None and bool(sent.get(AGREED)),
        "hindrance": sentence(hindrance) if hindrance else "",
        "said": said,
        "within_s": WITHIN_S,
        "mark_name": MARK,
        **_describe_result(spec, result),
    }
    return render(request, "drafts/tool/test.html", context, status=status)


def _read_arguments(form: TypedForm, text: str | None) -> tuple[dict[str, JSON], list[str]]:
    """Return the arguments that were sent, and sentences on those that cannot be read."""
    if form.parts:
        return form.value, ["Some arguments cannot be read: see the fields that are marked."] if form.wrong else []
    found, problem = parse_json_object(text or "{}", strict=True)
    if found is None:
        return {}, [sentence(problem.replace("the answer", "the text", 1))]
    return found, []


def _describe_result(spec: ToolSpec, result: ToolTestResult | None) -> dict[str, Any]:
    if result is None:
        return {"result": None}
    as_text = (
        result.result if isinstance(result.result, str) else json.dumps(result.result, ensure_ascii=False, indent=2)
    )
    return {"result": result, "agent_gets": "" if result.problem else as_text[:4_000]}
