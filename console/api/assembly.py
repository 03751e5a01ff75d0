"""Assembles the API from its operations, and converts their exceptions to problem documents."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation
from ninja.parser import Parser

from console.api import audit, drafts, memories, models, notifications, people, scenarios
from console.api import workspaces as policies
from console.api.drills import fleet, schedules
from console.api.drills import operations as drills
from console.api.fabrics import files as fabric_files
from console.api.middleware import read_json
from console.api.reviews import decisions as review_decisions
from console.api.reviews import queue as reviews
from console.api.reviews import talk as review_talk
from console.api.runs import dashboards, past, records, stops, stream
from console.api.runs import decisions as explained
from console.api.runs import jobs as run_jobs
from console.api.runs import labels as run_labels
from console.api.runs import operations as runs
from console.site.errors.pages import STATUS
from console.site.errors.problems import RETRY_AFTER, FieldError, Problem, build_id, problem_response
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.selectors.errors import Refused
from fabric.services.runs.start import STOPPED

log = logging.getLogger(__name__)

RENAMED = {"before": "cursor", "after": "cursor", "start_key": "Idempotency-Key", "session_key": "session_key"}
"""Name of a parameter in the API, by the name that services use."""


class StrictParser(Parser):
    """Reads bodies with ``bodies.read_json``."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body's value."""
        return read_json(request.body, request.headers.get("Content-Type", ""))


api = NinjaAPI(
    title="Fabric Flow",
    version="1",
    description="Runs multi-agent systems durably, under limits that cannot be passed.",
    openapi_url=None,
    docs_url=None,
    parser=StrictParser(),
)
ROUTERS = (
    audit.router,
    drafts.change_request_router,
    fabric_files.router,
    drafts.router,
    memories.router,
    runs.router,
    stops.router,
    run_jobs.router,
    explained.router,
    run_labels.router,
    dashboards.router,
    past.router,
    records.cost_router,
    records.router,
    stream.router,
    records.bundle_router,
    reviews.router,
    review_talk.router,
    review_decisions.router,
    models.breaker_router,
    drills.drill_stop_router,
    schedules.router,
    scenarios.router,
    fleet.router,
    drills.router,
    drills.report_router,
    notifications.router,
    people.router,
    people.token_router,
    models.router,
    policies.router,
    review_decisions.history_router,
)
for router in ROUTERS:
    api.add_router("", router)


# -- parameters ------------------------------------------------------------------------------------------------------


def _only_known(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Refuse query parameters that the operation does not know, and those that come twice."""
    operation: Operation = run.__self__  # type: ignore[attr-defined]
    known = {
        name
        for model in operation.models
        if model.__ninja_param_source__ == "query"
        for name in model.__ninja_flatten_map__
    }

    @wraps(run)
    def check_request(request: HttpRequest, **path: Any) -> HttpResponse:
        errors = []
        for name, values in request.GET.lists():
            if name not in known:
                errors.append(FieldError(name[:60], "there is no such parameter: leave it out"))
            elif len(values) > 1:
                errors.append(FieldError(name, "the parameter comes more than once: send it once"))
        if errors:
            return problem_response(request, _invalid(errors))
        return run(request, **path)

    return check_request


api.add_decorator(_only_known, mode="view")


# -- what operations raise -------------------------------------------------------------------------------------------

SENTENCES: dict[str, str] = {
    "missing": "is missing: send it",
    "extra_forbidden": "is no field here: leave it out",
    "json_invalid": "is no JSON",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "list_type": "must be a list",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "string_too_short": "has too few characters: at least {min_length}",
    "string_too_long": "has too many characters: at most {max_length} are taken",
    "too_long": "has {actual_length} items: at most {max_length} are taken",
    "greater_than_equal": "is too small: at least {ge}",
    "less_than_equal": "is too large: at most {le}",
    "string_pattern_mismatch": "may hold only visible ASCII characters, without spaces",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "uuid_parsing": "must be an id",
}
"""End of a sentence about a field, by pydantic's error type. Other types keep pydantic's message."""


def _describe_error(error: dict[str, Any]) -> FieldError:
    # ("body", argument, field ...) or ("query", name): the argument's name is ours and says nothing to the caller.
    source, *where = error["loc"]
    path = ".".join(str(part) for part in (where[1:] if source == "body" else where))
    known = SENTENCES.get(error["type"])
    context = {key: str(value) for key, value in error.get("ctx", {}).items()}
    try:
        said = known.format(**context) if known else f"is not acceptable: {error['msg'][:1].lower()}{error['msg'][1:]}"
    except KeyError:
        said = "is not acceptable"
    return FieldError(path, f"{path or 'the body'} {said}")


def _invalid(errors: list[FieldError]) -> Problem:
    more = f" (and {len(errors) - 1} more, see errors)" if len(errors) > 1 else ""
    first = errors[0]
    message = first.message if first.path in first.message else f"{first.path}: {first.message}"
    return Problem(422, f"{message}{more}", errors[:100])


def _on_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return problem_response(request, _invalid([_describe_error(one) for one in error.errors]))


def _on_problem(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem_response(request, problem)


def _on_refused(request: HttpRequest, refusal: Refused) -> HttpResponse:
    # A mistake within a text is a mistake of the field that it was sent in.
    path = "source" if refusal.placed else RENAMED.get(refusal.field, refusal.field)
    message = (
        refusal.message.replace("start_key", "Idempotency-Key") if refusal.field == "start_key" else refusal.message
    )
    status = STATUS[refusal.code]
    stopped = {"code": STOPPED} if refusal.field == STOPPED else {}
    errors = [FieldError(path, message)] if path and status != 404 and not stopped else []
    headers = {"Retry-After": RETRY_AFTER} if status == 503 else {}
    placed = [
        {"path": one.path, "line": one.line, "column": one.column, "sentence": one.sentence} for one in refusal.placed
    ]
    extra = {"problems": placed} if placed else stopped
    return problem_response(request, Problem(status, message, errors, extra, headers))


def _on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    # The framework wraps every exception of a parser.
    cause = error.__cause__
    if isinstance(cause, Problem):
        return problem_response(request, cause)
    if cause is not None:
        return _on_failure(request, cause)
    return problem_response(request, Problem(error.status_code, error.message))


def _on_missing(request: HttpRequest, _error: Http404) -> HttpResponse:
    return problem_response(request, Problem(404))


def _on_unavailable(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("request %s found the database unavailable: %s", build_id(request), error)
    return problem_response(request, Problem(503, headers={"Retry-After": RETRY_AFTER}))


def _on_failure(request: HttpRequest, error: BaseException) -> HttpResponse:
    log.error("request %s to %s failed", build_id(request), request.path, exc_info=error)
    return problem_response(request, Problem(500))


HANDLERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    ValidationError: _on_invalid,
    Problem: _on_problem,
    Refused: _on_refused,
    HttpError: _on_http_error,
    Http404: _on_missing,
    StoreUnavailable: _on_unavailable,
    OperationalError: _on_unavailable,
    InterfaceError: _on_unavailable,
    DatabaseError: _on_failure,
    Exception: _on_failure,
}
for raised, handler in HANDLERS.items():
    api.add_exception_handler(raised, handler)
