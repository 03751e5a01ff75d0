"""Prompts by hand: an author sends one prompt to an agent of a draft, outside any run. No tool is called.

The model gets what a run would send it: the agent's instructions, schema and options, through the adapter of runs.
The largest cost is recorded in the audit trail before the request, and the real cost afterwards. A web server that
dies in between leaves the largest cost as the known one. Neither the prompt nor the answer is kept.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.budgets.charges import Charge, charge
from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.people.actor import Actor
from fabric.core.schema.payloads import asked_json_schema, json_schema
from fabric.core.spec.tree import AgentSpec, ModelSpec
from fabric.core.texts.text import clean_text
from fabric.core.values.cost import Price, worst_input_tokens
from fabric.core.values.units import JSON, US
from fabric.core.values.words import dollars
from fabric.core.workspace_policy.rules import model_denied
from fabric.models import AuditLine, new_id
from fabric.policies.schemas.evaluators import Evaluator, SchemaProblem, compile_data
from fabric.runtime.ports.calls import ChatMessage, ModelRequest
from fabric.runtime.prompts import agent_text
from fabric.services.acts import audit_record
from fabric.services.budgets.keys import key_reserve, key_settle
from fabric.services.drafts.agent_answers import list_misfits, list_shapes
from fabric.services.drafts.parts import find_part, read_tree
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.installation.facts import InstallationFacts

WITHIN_S = 30.0
"""The most seconds that one answer takes."""
AT_ONCE_MAX = 3
"""Largest number of prompts under way in a web process."""
USD_MICROS_MAX = 250_000
"""Largest cost of one prompt with its answer, in micro-dollars."""
PROMPT_CHARS_MAX, ANSWER_CHARS = 20_000, 20_000
"""Characters of a prompt, and of an answer that are shown."""
OVERHEAD_BYTES = 2_000
"""Largest size of a protocol's frame around a prompt."""
DAYS = 30
"""Days whose prompts by hand are summed."""
LINES_MAX = 2_000
"""Audit lines that are summed."""
_THEN = "ask it"
_slots = threading.BoundedSemaphore(AT_ONCE_MAX)

AskModel = Callable[[ModelRequest], ModelReplied | CallFailed]
"""Makes one call: ``composition.models.ask_once``. It never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskableAgent:
    """An agent of a draft with its model, as both are drafted."""

    agent: AgentSpec
    model: ModelSpec
    shapes: Mapping[str, str]
    """Shape of its answer by role, the role in words."""
    price: Price | None
    problem: str
    """Why no prompt can be sent, as a sentence; empty: one can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The answer to a prompt, and its cost."""

    took_ms: int
    text: str
    problem: str
    """Why there is no answer, in one sentence; empty: there is one."""
    misfits: tuple[str, ...]
    """Why the answer does not fit its shape; empty: it fits."""
    model: str
    """The endpoint's name of the answering model."""
    input_tokens: int
    output_tokens: int
    usd_micros: int
    billed: bool
    """False: the endpoint reported nothing, and the cost is the largest possible, or nothing."""


def agent_get(actor: Actor, fabric: str, name: str, providers: Collection[str]) -> AskableAgent:
    """Return an agent of the actor's draft. Raises Refused: forbidden, not_found, invalid (it or its model has
    errors).
    """
    tree = read_tree(actor, fabric)
    agent = find_part(tree, "agent", name, AgentSpec, then=_THEN)
    model = find_part(tree, "model", agent.model, ModelSpec, then=_THEN)
    where = here.installation(workspace_id=actor.workspace_id)
    price = where.price(model)
    return AskableAgent(
        agent=agent,
        model=model,
        shapes=list_shapes(tree, name),
        price=price,
        problem=_find_hindrance(agent, model, price, providers, where),
    )


def _find_hindrance(
    agent: AgentSpec, model: ModelSpec, price: Price | None, providers: Collection[str], where: InstallationFacts
) -> str:
    if model.provider not in providers:
        return f"model {model.name!r} names provider {model.provider!r}, which is not installed here: name another"
    if denied := model_denied(model, where.policy):
        return f"model {model.name!r} may not be asked: {denied}"
    if price is None:
        return f"model {model.name!r} has no price, so nothing bounds its cost: give it a price in the draft"
    try:
        _compile(agent)
    except SchemaProblem as error:
        return f"agent {agent.name!r}: {error}"
    return ""


def _compile(agent: AgentSpec) -> Evaluator | None:
    return None if agent.output_schema is None else compile_data(agent.output_schema)


def agent_ask(
    *,
    actor: Actor,
    fabric: str,
    name: str,
    prompt: str,
    role: str = "",
    providers: Collection[str],
    ask: AskModel,
) -> AgentReply:
    """Send one prompt to an agent of the actor's draft, and return its answer, within ``WITHIN_S``.

    ``role``: a key of ``AskableAgent.shapes``; empty: the first. Raises Refused: forbidden, not_found, invalid (it
    cannot be asked, or may cost too much), conflict (a key's cap), unavailable (others are under way).
    """
    asked = agent_get(actor, fabric, name, providers)
    if asked.problem:
        raise Refused(asked.problem, code="invalid", field="agent")
    request, shape = _build_request(actor, asked, prompt, role)
    worst = _bound_cost(asked, request)
    if not _slots.acquire(blocking=False):
        raise Refused(f"{AT_ONCE_MAX} prompts are under way: wait until one is answered", code="unavailable")
    try:
        scopes = _begin(actor, fabric, asked, request, worst)
        begun = time.monotonic()
        given = ask(request)
        took_ms = round((time.monotonic() - begun) * 1_000)
        charged = charge(asked.price, worst, given)
        _record_cost(actor, fabric, request, given, worst, charged, scopes)
    finally:
        _slots.release()
    return _read_reply(asked, shape, given, charged, took_ms)


def _read_reply(
    asked: AskableAgent, shape: str, given: ModelReplied | CallFailed, charged: Charge, took_ms: int
) -> AgentReply:
    text = problem = model = ""
    misfits: tuple[str, ...] = ()
    if isinstance(given, CallFailed):
        problem = given.message
    else:
        text, model = given.text[:ANSWER_CHARS], given.model
        misfits = list_misfits(asked.agent, shape, given, _compile(asked.agent))
    return AgentReply(
        took_ms=took_ms,
        text=text,
        problem=problem,
        misfits=misfits,
        model=model,
        input_tokens=given.input_tokens,
        output_tokens=given.output_tokens,
        usd_micros=charged.usd_micros,
        billed=charged.billed,
    )


def _build_request(actor: Actor, asked: AskableAgent, prompt: str, role: str) -> tuple[ModelRequest, str]:
    """Return the request, and the shape of its answer."""
    text = clean_text(prompt)[0].strip()
    if not text:
        raise Refused("the prompt is empty: write what the agent shall answer", code="invalid", field="prompt")
    if len(text) > PROMPT_CHARS_MAX:
        message = f"the prompt has {len(text):,} characters, and {PROMPT_CHARS_MAX:,} are the most: shorten it"
        raise Refused(message, code="invalid", field="prompt")
    chosen = role or next(iter(asked.shapes))
    if chosen not in asked.shapes:
        message = f"the agent has no role {role[:40]!r} in the draft; its roles: {', '.join(asked.shapes)}"
        raise Refused(message, code="invalid", field="role")
    agent, shape, key = asked.agent, asked.shapes[chosen], f"ask-{new_id()}"
    data = agent.output_schema if shape == "summary" else None
    schema = None if agent.answers == "text" else json_schema(shape) if data is None else asked_json_schema(data)
    request = ModelRequest(
        command_id=key,
        attempt=1,
        run_id="",
        trace_headers={},
        agent=agent.name,
        model=asked.model,
        messages=(ChatMessage("system", agent_text(agent, shape, data)), ChatMessage("user", text)),
        tools=(),
        output=shape,
        output_schema=schema,
        data_schema=data,
        max_output_tokens=agent.max_output_tokens,
        idempotency_key=key,
        deadline_at=time.time_ns() // 1_000 + int(WITHIN_S * US),
        workspace=actor.workspace_id,
    )
    return request, shape


def _bound_cost(asked: AskableAgent, request: ModelRequest) -> Charge:
    """Return the largest cost. Raises Refused invalid above ``USD_MICROS_MAX``."""
    size = sum(len(message.text.encode()) for message in request.messages) + OVERHEAD_BYTES
    size += 0 if request.output_schema is None else len(json.dumps(request.output_schema))
    tokens_in, tokens_out = worst_input_tokens(size), request.max_output_tokens
    assert asked.price is not None
    worst = asked.price.worst_cost(tokens_in, tokens_out)
    if worst > USD_MICROS_MAX:
        message = (
            f"an answer may cost {dollars(worst)}, and one prompt by hand may cost {dollars(USD_MICROS_MAX)}: "
            "shorten the prompt, or lower the agent's longest answer"
        )
        raise Refused(message, code="invalid", field="prompt")
    return Charge(worst, tokens_in + tokens_out)


def _begin(actor: Actor, fabric: str, asked: AskableAgent, request: ModelRequest, worst: Charge) -> tuple[str, ...]:
    """Record the prompt with its largest cost, reserve that in the key's caps, and return their scopes."""
    caps = here.installation(workspace_id=actor.workspace_id).caps_of(asked.model)
    with transaction.atomic():
        audit_record(
            actor=actor,
            act=Act.AGENT_ASKED,
            subject=fabric,
            ask=request.command_id,
            agent=asked.agent.name,
            provider=asked.model.provider,
            model=asked.model.model or asked.model.name,
            reserved_usd_micros=worst.usd_micros,
        )
        return key_reserve(caps, worst.usd_micros, time.time_ns() // 1_000)


def _record_cost(
    actor: Actor,
    fabric: str,
    request: ModelRequest,
    given: ModelReplied | CallFailed,
    worst: Charge,
    charged: Charge,
    scopes: tuple[str, ...],
) -> None:
    with transaction.atomic():
        audit_record(
            actor=actor,
            act=Act.AGENT_ANSWERED,
            subject=fabric,
            ask=request.command_id,
            agent=request.agent,
            cost_usd_micros=charged.usd_micros,
            input_tokens=given.input_tokens,
            output_tokens=given.output_tokens,
            cause=given.cause.value if isinstance(given, CallFailed) else None,
        )
        key_settle(scopes, worst.usd_micros, charged.usd_micros)


# -- what they cost ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskedSum:
    """Prompts by hand of one fabric in the last ``DAYS``."""

    prompts: int
    usd_micros: int
    more: bool
    """True: older ones in those days are not counted."""


def asked_sum(actor: Actor, fabric: str) -> AskedSum:
    """Return the sum of a fabric's prompts by hand. One that was never answered counts at its largest cost."""
    since = (time.time_ns() // 1_000) - DAYS * 86_400 * US
    rows = AuditLine.objects.filter(
        workspace_id=actor.workspace_id, subject=fabric, kind__in=(Act.AGENT_ASKED, Act.AGENT_ANSWERED), at__gte=since
    ).order_by("-at", "-id")
    costs: dict[str, int] = {}
    found = list(rows.values_list("kind", "body")[: LINES_MAX + 1])
    for kind, body in reversed(found[:LINES_MAX]):
        line: dict[str, JSON] = json.loads(bytes(body))
        costs[line["ask"]] = line["cost_usd_micros" if kind == Act.AGENT_ANSWERED else "reserved_usd_micros"]
    return AskedSum(len(costs), sum(costs.values()), len(found) > LINES_MAX)
