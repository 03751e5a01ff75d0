"""Answers an MCP server's questions in the middle of its calls: with a person's earlier answer, else with a cancel.

Source: Model Context Protocol 2025-11-25, "Elicitation"; 2026-07-28, "Multi round-trip requests". Only forms are
declared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TypedDict

from mcp import Client, ClientSession
from mcp.client.session import ClientRequestContext
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    FormElicitationCapability,
    InputRequiredResult,
    InputResponses,
    ReadResourceResult,
)

from fabric.core.reviews.requested_input import question_digest
from fabric.core.texts import forms
from fabric.core.texts.forms import InputRequest
from fabric.core.texts.text import clean, clean_text
from fabric.core.values.fingerprint import encode
from fabric.core.values.saga import Outcome
from fabric.core.values.units import JSON
from fabric.tools.answers.outcome import InputAsked, ToolError
from fabric.tools.mcp.bodies import CallExchange
from fabric.tools.mcp.offers import KnownServer

Answer = CallToolResult | ReadResourceResult | InputRequiredResult
ROUNDS_MAX = 10
"""Largest number of repetitions of a call that its server may request, as in the SDK."""
WAIT_S, WAIT_MAX_S = 0.05, 0.25
"""Seconds before a requested repetition of a call without questions, as in the SDK."""
MESSAGE_CHARS, SAID_CHARS = 2_000, 500
FORM_BYTES = 16_000


class RepeatFields(TypedDict, total=False):
    """Fields of a call that its server wants repeated."""

    input_responses: InputResponses | None
    request_state: str | None


class ServerQuestions:
    """The questions of one session. Its methods run on the session's loop."""

    def __init__(self, server: str, known: KnownServer) -> None:
        self._server, self._known = server, known
        self._out: list[CallExchange] = []
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, asked: CallExchange) -> AsyncIterator[None]:
        """Count a call as out; one at a time where the server's questions name no call."""
        async with self._alone if self._known.asks else nullcontext():
            self._out.append(asked)
            try:
                yield
            finally:
                self._out.remove(asked)

    async def answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Return the answer to a question that comes as a request of the server's."""
        asked = self._call_of(context.request_id)
        if asked is None:
            return ElicitResult(action="cancel")
        try:
            content = self._find_answer(asked, params)
        except ToolError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        return ElicitResult(action="cancel" if content is None else "accept", content=content)

    def _call_of(self, question: JSON) -> CallExchange | None:
        """Return the call that a question is about. None: it names none while several are out, so that it ends them
        all.
        """
        named = next((one for one in self._out if question in one.questions), None)
        if named is not None:
            return named
        self._known.asks = True
        if len(self._out) == 1 and not self._out[0].unclear:
            return self._out[0]
        for one in self._out:
            one.unclear = True
        return None

    async def answer_call(self, asked: CallExchange, send: Callable[[RepeatFields], Awaitable[Answer]]) -> Answer:
        """Return the call's answer, once all questions of its server were answered. Raises ToolError."""
        answer, wait_s = await send({}), WAIT_S
        for _ in range(ROUNDS_MAX):
            if not isinstance(answer, InputRequiredResult):
                if (refused := self.asks(asked, _answer_text(answer), _outcome(answer))) is not None:
                    raise refused
                return answer
            responses = self._responses(asked, answer)
            if not responses:
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, WAIT_MAX_S)
            answer = await send({"input_responses": responses or None, "request_state": answer.request_state})
        sentence = f"MCP server {self._server!r} asked for the same call {ROUNDS_MAX} times"
        raise ToolError(sentence, outcome=Outcome.REJECTED)

    def asks(self, asked: CallExchange, said: str, outcome: Outcome = Outcome.REJECTED) -> ToolError | None:
        """Return the end of a call whose server asks a person; None: it asks no person. ``said``: its answer to the
        cancel.
        """
        if asked.unclear:
            sentence = f"MCP server {self._server!r} asked a person while several calls were out, and did not say for which; make one call at a time"
            return ToolError(sentence, outcome=Outcome.UNKNOWN if asked.changes else Outcome.REJECTED)
        if asked.wanted is None:
            return None
        message, schema = asked.wanted
        request = InputRequest(
            server=self._server, message=message, schema=schema, said=clean_text(said[:SAID_CHARS])[0]
        )
        return InputAsked(request, outcome)

    def _responses(self, asked: CallExchange, answer: InputRequiredResult) -> InputResponses:
        found: InputResponses = {}
        for key, request in (answer.input_requests or {}).items():
            if not isinstance(request, ElicitRequest):
                sentence = f"MCP server {self._server!r} asks for {request.method}, which is refused"
                raise ToolError(sentence, outcome=Outcome.REJECTED)
            try:
                content = self._find_answer(asked, request.params)
            except ToolError as error:
                raise _build_refusal(f"MCP server {self._server!r} asks a person: {error}") from None
            if content is not None:
                found[key] = ElicitResult(action="accept", content=content)
            elif (wanted := self.asks(asked, "")) is not None:
                raise wanted
        return found

    def _find_answer(self, asked: CallExchange, params: ElicitRequestParams) -> dict[str, JSON] | None:
        """Return a person's answer to a question; None: there is none, and ``asked`` has the question. Raises
        ToolError.
        """
        if not isinstance(params, ElicitRequestFormParams):
            raise _build_refusal("a question is asked by a form; an address that a person is to open is refused")
        message, schema = clean_text(params.message[:MESSAGE_CHARS])[0], params.requested_schema
        if wrong := _problem(schema):
            raise _build_refusal(f"the form of a question is refused: {wrong}")
        given = asked.answers.get(question_digest(message, schema))
        if given is None:
            asked.wanted = asked.wanted or (message, schema)
            return None
        return dict(given)


def _build_refusal(why: str) -> ToolError:
    return ToolError(why, outcome=Outcome.REJECTED)


def _problem(schema: Mapping[str, JSON]) -> str:
    try:
        if clean(schema)[1] or len(encode(schema)) > FORM_BYTES:
            return f"it has more than {FORM_BYTES:,} bytes, or characters that cannot be shown"
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return forms.schema_problem(schema)


def _outcome(answer: CallToolResult | ReadResourceResult) -> Outcome:
    """Return the outcome after a cancel: the server should stop, but one that gives a result may have gone on."""
    failed = isinstance(answer, CallToolResult) and answer.is_error
    return Outcome.REJECTED if failed else Outcome.UNKNOWN


def _answer_text(answer: CallToolResult | ReadResourceResult) -> str:
    parts = answer.content if isinstance(answer, CallToolResult) else answer.contents
    return "\n".join(text for one in parts if (text := getattr(one, "text", "")))


class FormsClient(Client):
    """A client that declares forms and not addresses: the SDK declares both where there is a callback."""

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        declared = session._build_capabilities

        def forms_alone(version: str) -> ClientCapabilities:
            return declared(version).model_copy(
                update={"elicitation": ElicitationCapability(form=FormElicitationCapability())}
            )

        session._build_capabilities = forms_alone  # type: ignore[method-assign]
        return session
