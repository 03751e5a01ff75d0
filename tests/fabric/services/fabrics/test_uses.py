"""The fabrics and drafts that use a model or a tool: published ones, drafts of every author, and none that is not seen."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fabric.core.people.actor import Actor
from fabric.models import Draft
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.drafts.changes import draft_begin
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.uses import USES_MAX, DraftUse, ToolUses, find_tool_uses
from fabric.services.models.catalogue import models_list
from tests.fabric.services.models.scenes import PRICED, fabric
from tests.fabric.services.world import SMALL

pytestmark = pytest.mark.django_db
MODEL = f"model: gpt-4o-mini, {PRICED}"


def named(name: str) -> str:
    return SMALL.replace("name: small", f"name: {name}")


def uses_of(actor: Actor, name: str = "small") -> ToolUses:
    return find_tool_uses(actor, name, revision_get(actor, name).spec)["read_document"]


def test_other_fabrics_and_drafts_with_the_same_tool_are_named(actor: Actor) -> None:
    fabric_publish(actor=actor, source=SMALL)
    assert uses_of(actor) == ToolUses()
    fabric_publish(actor=actor, source=named("other"))
    fabric_publish(actor=actor, source=named("bare").replace("tools:\n  - name: read_document\n", "").replace("    tools: [read_document]\n", ""))  # fmt: skip
    draft_begin(actor=actor, name="begun", text="name: begun\ntools: [{name: read_document}, {name: 7}]\nagents: 9\n")
    draft_begin(actor=replace(actor, name="ana"), name="small", text="tools: [{name: reads, target: read_document}]")
    draft_begin(actor=actor, name="broken", text="tools: [")
    found = uses_of(actor)
    assert found.published == (("other", 1),)
    assert found.drafts == (
        DraftUse(fabric="begun", author="owner", own=True),
        DraftUse(fabric="small", author="ana", own=False),
    )
    assert found.more == 0


def test_many_are_counted(actor: Actor) -> None:
    fabric_publish(actor=actor, source=SMALL)
    for n in range(USES_MAX + 2):
        fabric_publish(actor=actor, source=named(f"other{n}"))
    found = uses_of(actor)
    assert (len(found.published), found.more) == (USES_MAX, 2)


def test_a_model_has_the_drafts_that_declare_it_so(actor: Actor, settings: Any) -> None:
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL = "https://api.openai.com/v1", ""
    fabric_publish(actor=actor, source=fabric("asks", MODEL))
    draft_begin(actor=actor, name="begun", text=f"models: [{{name: any, {MODEL}}}, {{name: more, {MODEL}}}]")
    draft_begin(actor=actor, name="asks", text=fabric("asks", MODEL.replace("0.60", "0.70")))
    (model,) = models_list(actor).models
    assert [use.fabric for use in model.uses] == ["asks"]
    assert model.drafts == (DraftUse(fabric="begun", author="owner", own=True),)


def test_the_statements_do_not_grow(actor: Actor, django_assert_num_queries: Any) -> None:
    fabric_publish(actor=actor, source=SMALL)
    spec = revision_get(actor, "small").spec
    for n in range(6):
        fabric_publish(actor=actor, source=named(f"other{n}"))
        draft_begin(actor=actor, name=f"begun{n}", text=json.dumps({"tools": [{"name": "read_document"}], "n": n}))
    with django_assert_num_queries(2):
        assert len(find_tool_uses(actor, "small", spec)["read_document"].drafts) == 6
    with django_assert_num_queries(5):
        assert len(models_list(actor).models) == 1


def test_another_workspace_sees_none_of_it(actor: Actor, stranger: Actor) -> None:
    for one in (actor, stranger):
        fabric_publish(actor=one, source=SMALL)
    draft_begin(actor=stranger, name="theirs", text="tools: [{name: read_document}]")
    assert Draft.objects.count() == 1
    assert uses_of(actor) == ToolUses()
