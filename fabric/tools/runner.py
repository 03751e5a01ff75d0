"""Runs tools: finds the tool of a ``ToolSpec``, checks the arguments, keeps the deadline, and cleans the answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from fabric.child_processes.process import ChildDied
from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.texts.text import clean, clean_text
from fabric.core.values.fingerprint import encode
from fabric.core.values.frozen import replace
from fabric.core.values.saga import MUTATES, Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.http.transport import Gate
from fabric.policies.schemas.evaluators import Evaluator, SchemaProblem, compile_schema
from fabric.runtime.ports.calls import ToolOffer, ToolRequest
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.ports.memories import MemoryCall, MemoryStore, answer, tool_answer
from fabric.secrets.known_secrets import KNOWN
from fabric.tools import calculator
from fabric.tools import documents as docs
from fabric.tools import person as asking_person
from fabric.tools.answers import handovers as handing_over
from fabric.tools.answers.binary import replace_bytes
from fabric.tools.answers.outcome import CallBroken, ToolError
from fabric.tools.functions import callables
from fabric.tools.functions.permits import NOTHING, Permits
from fabric.tools.functions.process_pool import ProcessPool, ToolRaised
from fabric.tools.functions.thread_pool import CallExpired, PoolFull, ToolPool
from fabric.tools.http import endpoint as http_endpoint
from fabric.tools.mcp.servers import McpServers

RESULT_BYTES_MAX = 1_000_000
ERROR_CHARS = 1_000
DONE = "; it was done all the same, so do not call it again for the same thing"
"""Words to a model about a call that changed the world and whose answer is an error."""
_FROM_OUTSIDE = ("http", "mcp", "callable")
ANY_OBJECT: Mapping[str, JSON] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Builtin:
    """A tool that ships with the product: its offer to models, and its effect on the world."""

    description: str
    parameters: Mapping[str, JSON]
    effect: str = "read_only"


BUILTINS: Mapping[str, Builtin] = {
    "read_document": Builtin(docs.READ_DESCRIPTION, docs.READ_PARAMETERS),
    "search_documents": Builtin(docs.SEARCH_DESCRIPTION, docs.SEARCH_PARAMETERS),
    "calculator": Builtin(calculator.DESCRIPTION, calculator.PARAMETERS),
    "http_get": Builtin(http_endpoint.DESCRIPTION, http_endpoint.PARAMETERS),
    "ask_person": Builtin(asking_person.DESCRIPTION, asking_person.PARAMETERS),
}


def find_builtin(spec: ToolSpec) -> str:
    """Return the name of a spec's built-in: its target, or its own name."""
    return spec.target or spec.name


def offers(spec: ToolSpec) -> ToolOffer:
    """Return the tool's offer to a model: the spec's words, else the built-in's own. Raises KeyError for an unknown
    built-in.
    """
    if spec.kind != "builtin":  # The engine describes a memory's tools in full.
        return ToolOffer(name=spec.name, description=spec.description, parameters=spec.parameters or ANY_OBJECT)
    own = BUILTINS[find_builtin(spec)]
    description = spec.description or own.description
    if find_builtin(spec) == "http_get":
        description = f"{description} Allowed hosts: {', '.join(spec.allowed_hosts) or 'none'}."
    return ToolOffer(name=spec.name, description=description, parameters=own.parameters)


def build_validator(spec: ToolSpec) -> Evaluator:
    """Return the compiled schema of a tool's arguments. Raises SchemaProblem, or KeyError for an unknown built-in."""
    return compile_schema(offers(spec).parameters)


def problems(spec: ToolSpec, gate: Gate | None = None, permits: Permits = NOTHING) -> list[str]:
    """Return the sentences that keep a tool from being published. The function of a callable is not loaded here, but
    its permit is checked.
    """
    gate = gate or Gate()
    if spec.kind == "builtin":
        return [*_builtin_problems(spec, gate), *_placed_problems(spec)]
    found = _placed_problems(spec)
    if spec.parameters is None:
        found.append(f"tool {spec.name!r} says nothing of its arguments; give `parameters`, a JSON schema")
    else:
        try:
            compile_schema(spec.parameters)
        except SchemaProblem as error:
            found.append(f"tool {spec.name!r}: {error}")
    if not spec.description:
        found.append(f"tool {spec.name!r} has no description; models choose tools by it")
    if spec.kind == "mcp":
        return found  # Its server is judged by itself, and what that offers when it is called.
    if not spec.target:
        wanted = "the operator's name for a function" if spec.kind == "callable" else "a URL"
        found.append(f"tool {spec.name!r} has no target; give {wanted}")
    elif spec.kind == "http" and (problem := _address_problem(spec, gate, permits)):
        found.append(f"tool {spec.name!r}: {problem}")
    return found


def _address_problem(spec: ToolSpec, gate: Gate, permits: Permits) -> str:
    return gate.problem(spec.target) or permits.headers_problem(spec.target, spec.headers_from)


def _placed_problems(spec: ToolSpec) -> list[str]:
    if spec.kind == "http":
        return [f"tool {spec.name!r} {problem}" for problem in http_endpoint.problems(spec)]
    given = [name for name in ("places", "headers_from") if getattr(spec, name)]
    return [f"tool {spec.name!r} has {' and '.join(given)}, which only kind http has; leave it out"] if given else []


def _builtin_problems(spec: ToolSpec, gate: Gate) -> list[str]:
    own = BUILTINS.get(find_builtin(spec))
    if own is None:
        return [
            f"tool {spec.name!r}: there is no built-in {find_builtin(spec)!r}; there are: {', '.join(sorted(BUILTINS))}"
        ]
    found = []
    if spec.effect != own.effect:
        found.append(
            f"tool {spec.name!r} is declared {spec.effect}, but the built-in {find_builtin(spec)} is {own.effect}"
        )
    if spec.parameters is not None:
        found.append(
            f"tool {spec.name!r} has its own parameters, but those of the built-in {find_builtin(spec)} are fixed"
        )
    if find_builtin(spec) == "http_get":
        if not spec.allowed_hosts:
            found.append(f"tool {spec.name!r} allows no host; list them in `allowed_hosts`")
        wrong = {
            host: gate.problem(f"https://{host}/") for host in spec.allowed_hosts if gate.problem(f"http://{host}/")
        }
        found.extend(f"tool {spec.name!r}: {problem}" for problem in wrong.values() if problem)
    elif spec.allowed_hosts:
        found.append(f"tool {spec.name!r} lists allowed_hosts, which only http_get knows")
    return found


def _unknown(spec: ToolSpec) -> str:
    return f"tool {spec.name!r}: there is no built-in {find_builtin(spec)!r}; there are: {', '.join(sorted(BUILTINS))}"


class ToolRunner:
    """The ``ToolPort``. ``gate`` vets addresses (FABRIC_ALLOWED_HOSTS), ``permits`` everything else; ``memories``:
    store of fabrics' memories.

    ``now``: microseconds since the epoch.
    """

    def __init__(
        self,
        *,
        gate: Gate | None = None,
        permits: Permits = NOTHING,
        pool: ToolPool | None = None,
        memories: MemoryStore | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000,
    ) -> None:
        self._gate = gate or Gate()
        self.pool = pool or ToolPool()
        self._memories = memories
        self._processes = ProcessPool(self.pool)
        self._now = now
        self._permits = permits
        self.servers = McpServers(self._gate, permits)

    async def run(self, request: ToolRequest) -> ToolFinished | CallFailed:
        """Run the tool once. Its own error is a ``ToolFinished``; only cancellation is raised. Known secrets are
        masked in the result.
        """
        return KNOWN.mask_value(await self._run(request))

    async def _run(self, request: ToolRequest) -> ToolFinished | CallFailed:
        name = request.tool.name
        left_s = (request.deadline_at - self._now()) / 1e6
        if left_s <= 0:
            return _not_begun(request, Cause.TIMEOUT, f"the deadline had passed before tool {name!r} began")
        own_s = request.tool.timeout_s or (request.server.timeout_s if request.server is not None else left_s)
        timeout_s = min(left_s, own_s)
        if request.tool.kind == "builtin" and find_builtin(request.tool) not in BUILTINS:
            return _not_begun(request, Cause.BAD_CONFIGURATION, _unknown(request.tool))
        try:
            if wrong := build_validator(request.tool)(dict(request.args)):
                return _finish_call(request, None, f"the arguments do not fit: {'; '.join(wrong)}")
            if request.memory is None:
                return _storable_result(request, await self._call(request, timeout_s))
            return await self._remember(request, request.memory, timeout_s)
        except ToolError as error:
            failed = _finish_call(request, None, str(error), outcome=error.outcome, code=error.code)
            return replace(failed, requested=error.requested)
        except CallBroken as broken:
            return _end_broken(request, broken)
        except PoolFull as full:
            return _not_begun(request, Cause.QUEUE_FULL, f"tool {name!r} was not run: {full}")
        except CallExpired:
            sentence = f"tool {name!r} did not return within {timeout_s:.1f} seconds"
            return _fail_call(request, CallBroken(Cause.TIMEOUT, sentence))
        except (SchemaProblem, callables.NotATool) as error:
            return _not_begun(request, Cause.BAD_CONFIGURATION, f"tool {name!r}: {error}")
        except (ToolRaised, ChildDied) as error:
            return _finish_call(request, None, f"the tool failed: {error}", outcome=Outcome.UNKNOWN)
        except Exception as error:  # noqa: BLE001 - A tool may raise anything; its error is data for the model.
            said = f"the tool failed: {error} ({type(error).__name__})"
            return _finish_call(request, None, said, outcome=Outcome.UNKNOWN)

    async def end(self) -> None:
        """End the sessions with MCP servers, on the loop of their use."""
        await self.servers.end()

    def close(self) -> None:
        """Close the threads and the child processes."""
        self.servers.kill()
        self._processes.close()
        self.pool.close()

    def _call(self, request: ToolRequest, timeout_s: float) -> Awaitable[JSON]:
        spec, args = request.tool, {name: _whole(value) for name, value in request.args.items()}
        if spec.kind == "http":
            return http_endpoint.call_endpoint(self._gate, self._permits, request, timeout_s)
        if spec.kind == "callable":
            return self._of_operator(request, args, timeout_s)
        if spec.kind == "mcp":
            return self._of_server(request, timeout_s)
        match find_builtin(spec):
            case "http_get":
                return http_endpoint.http_get(self._gate, spec.allowed_hosts, timeout_s, **args)
            case "ask_person":
                return self._in_thread(partial(asking_person.ask_person, request.answers, **args), timeout_s)
            case "calculator":
                return self._in_thread(partial(calculator.calculate, **args), timeout_s)
            case "read_document":
                return self._in_thread(lambda: docs.read_document(request.documents(), **args), timeout_s)
        return self._in_thread(lambda: docs.search_documents(request.documents(), **args), timeout_s)

    def _of_operator(self, request: ToolRequest, args: Mapping[str, JSON], timeout_s: float) -> Awaitable[JSON]:
        spec = request.tool
        for _, problem in self._permits.callable_problems(spec):
            raise callables.NotATool(problem)
        found = self._permits.tools[spec.target]
        try:
            environment = self._permits.environment_of(found.variables)
        except LookupError as missing:
            raise callables.NotATool(str(missing)) from None
        return self._processes.call(found.path, args, request.idempotency_key, timeout_s, environment)

    def _of_server(self, request: ToolRequest, timeout_s: float) -> Awaitable[JSON]:
        if request.server is None:
            sentence = f"tool {request.tool.name!r}: no MCP server is declared for {request.tool.target!r}"
            raise CallBroken(Cause.BAD_CONFIGURATION, sentence, outcome=Outcome.REJECTED)
        return self.servers.call(request.server, request, timeout_s)

    async def _remember(self, request: ToolRequest, about: MemoryCall, timeout_s: float) -> ToolFinished | CallFailed:
        store = self._memories
        if store is None:
            return _not_begun(request, Cause.BAD_CONFIGURATION, "this installation has no memories")
        key, until = request.idempotency_key, request.deadline_at
        asked = partial(answer, store, about, request.args, key=key, deadline_at=until)
        try:
            said = await self._in_thread(asked, timeout_s)
        except StoreUnavailable as error:
            raise CallBroken(Cause.NETWORK, f"the memory does not answer: {error}") from error
        return tool_answer(request.command_id, request.attempt, said)

    async def _in_thread(self, function: Callable[[], JSON], timeout_s: float) -> JSON:
        return await self.pool.call(function, timeout_s)


def _whole(value: JSON) -> JSON:
    """Return a JSON value as a Python function takes it. 3.0 is an integer to JSON Schema, and none to Python."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    exact = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if exact else value


def _storable_result(request: ToolRequest, result: JSON) -> ToolFinished:
    """Return the result ready for storage, or its fault: the tool has done its work either way."""
    result, returned, writes = handing_over.take_result(request.tool, result)
    try:
        cleaned, changed = clean(replace_bytes(result) if request.tool.kind in _FROM_OUTSIDE else result)
    except (ValueError, RecursionError) as error:
        return _finish_call(request, None, f"the tool's result is refused: {error}", outcome=Outcome.ANSWERED)
    size = len(encode(cleaned))
    if size > RESULT_BYTES_MAX:
        sentence = f"the tool's result has {size:,} bytes; at most {RESULT_BYTES_MAX:,} are kept; ask for less"
        return _finish_call(request, None, sentence, outcome=Outcome.ANSWERED)
    return replace(_finish_call(request, cleaned, sanitized=changed), returned=returned, writes=writes)


def _finish_call(
    request: ToolRequest,
    result: JSON,
    error: str = "",
    *,
    sanitized: bool = False,
    outcome: Outcome | None = None,
    code: str = "",
) -> ToolFinished:
    done = DONE if error and outcome is Outcome.ANSWERED and request.tool.effect in MUTATES else ""
    shown, dirty = clean_text(error[: ERROR_CHARS - len(done)] + done)
    return ToolFinished(
        command_id=request.command_id,
        attempt=request.attempt,
        result=result,
        error=shown,
        sanitized=sanitized or dirty,
        outcome=outcome,
        code=code,
    )


def _end_broken(request: ToolRequest, broken: CallBroken) -> ToolFinished | CallFailed:
    """Return a failed call. Where it was done all the same, the model reads the error, since another try would do it
    again.
    """
    if broken.outcome is Outcome.ANSWERED and request.tool.effect in MUTATES:
        return _finish_call(request, None, broken.message, outcome=broken.outcome)
    return _fail_call(request, broken)


def _not_begun(request: ToolRequest, cause: Cause, message: str) -> CallFailed:
    return replace(_fail_call(request, CallBroken(cause, message, outcome=Outcome.REJECTED)), never_sent=True)


def _fail_call(request: ToolRequest, broken: CallBroken) -> CallFailed:
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=broken.cause,
        message=clean_text(broken.message[:ERROR_CHARS])[0],
        status=broken.status,
        retry_after_s=broken.retry_after_s,
        raw=clean_text(broken.raw)[0],
        outcome=broken.outcome,
    )
