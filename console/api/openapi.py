"""Completes the framework's schema of the API with callers' rights, every error, and examples.

The statuses of each operation, and each group of operations, get their descriptions here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from django.conf import settings

from console.api.assembly import api
from console.api.runs.facts import describe_payloads
from console.site.access.callers import SCOPES
from console.site.errors.problems import KINDS, MEDIA_TYPE, REQUEST_ID
from fabric.core.values.units import JSON
from fabric.program.name import program
from fabric.services.runs.start import STOPPED

ROOT = "/api/v1/"

ALWAYS = (400, 401, 403, 413, 422, 429, 500, 503)
"""Errors of every operation. 404 comes with an id in the path, 415 with a body."""

_PROBLEM: JSON = {
    "title": "Problem",
    "description": "Why a request was not carried out (RFC 9457). It changed nothing.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "Kind of the problem: an address in the documentation."},
        "title": {"type": "string", "description": "The kind in a few words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "One sentence: what is wrong, where, what to do."},
        "instance": {"type": "string", "description": "The path that was asked for."},
        "request_id": {"type": "string", "description": "The request's id, as in the X-Request-Id header and the server's log."},
        "errors": {
            "type": "array",
            "description": "Each thing that is wrong, where there are places to name.",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {
                    "path": {"type": "string", "description": "Where: documents.0.name, limit; empty for the whole."},
                    "message": {"type": "string", "description": "One sentence."},
                    "start": {"type": "integer", "description": "Where in a query it begins, from 0."},
                    "end": {"type": "integer", "description": "Position after it."},
                },
            },
        },
        "problems": {
            "type": "array",
            "description": "For a submitted text: each error with its place.",
            "items": {"$ref": "#/components/schemas/PlacedOut"},
        },
        "code": {"type": "string", "enum": [STOPPED], "description": "For a program: new runs are stopped (listStops)."},
        "answer": {"$ref": "#/components/schemas/AnswerOut", "description": "The answer that a review has already."},
        "assignment": {"$ref": "#/components/schemas/AssignmentOut", "description": "Person who claimed the review."},
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def schema() -> JSON:
    """Return the OpenAPI 3.1 document, which callers must not change."""
    made: JSON = dict(api.get_openapi_schema(path_prefix=ROOT))
    made["info"] = {**made["info"], "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}}
    made["servers"] = [{"url": "/", "description": "This installation."}]
    made["tags"] = [{"name": name, "description": means} for name, means in TAGS.items()]
    components = made["components"]
    components["schemas"]["Problem"] = _PROBLEM
    union, facts = describe_payloads()
    components["schemas"]["EventOut"]["properties"]["payload"] |= union
    components["schemas"] |= facts
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": f"A token from `{program()} token create NAME --scope read run decide`; each operation names the scope it needs.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "A signed-in browser. What changes something also needs its CSRF token in the X-CSRFToken header.",
        },
    }
    for path, method, operation in operations(made):
        _complete(made, path, method, operation)
    return made


def operations(document: JSON) -> Iterator[tuple[str, str, JSON]]:
    """Yield every operation: its path, its method in capitals, its description."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def find_scope(operation_id: str) -> str:
    """Return the scope that a token needs for an operation."""
    return _ROUTES[operation_id]


def _routes() -> dict[str, str]:
    found = {}
    for bound in api._get_bound_routers():
        for view in bound.path_operations.values():
            for operation in view.operations:
                assert operation.operation_id is not None
                found[operation.operation_id] = SCOPES[operation.url_name, operation.methods[0]].value
    return found


_ROUTES = _routes()


def _complete(document: JSON, path: str, method: str, operation: JSON) -> None:
    name = operation["operationId"]
    operation["summary"] = operation["description"].partition(". ")[0].rstrip(".")
    operation["security"] = [{"token": [find_scope(name)]}, {"session": []}]
    for parameter in operation["parameters"]:
        parameter["schema"] = _parameter_schema(parameter["schema"])
        parameter.pop(
            "examples", None
        )  # The framework copies the schema's list; OpenAPI has an object of another form here.
        parameter["example"] = parameter["schema"].pop("example", None) or example(document, parameter["schema"])
        parameter["schema"].pop("description", None)
    responses = operation["responses"]
    for status, response in responses.items():
        response["description"] = MEANS[name, status]
        for content in response["content"].values():
            content["example"] = example(document, content["schema"])
    statuses = {*ALWAYS, *(status for of, status in MEANS if of == name and status >= 400)}
    if "{" in path:
        statuses.add(404)
    if "requestBody" in operation:
        statuses.add(415)
        for content in operation["requestBody"]["content"].values():
            content["schema"] = _parameter_schema(content["schema"])
            content["example"] = example(document, content["schema"])
    for status in sorted(statuses):
        responses[status] = _problem(name, status, path, method)
    for status, response in responses.items():
        response["headers"] = _headers(name, status)
    operation["responses"] = {str(status): responses[status] for status in sorted(responses)}


def _parameter_schema(given: JSON) -> JSON:
    """Return the schema of a value as a caller sends it: without null and defaults, because callers omit a
    parameter.
    """
    among = [one for one in given.get("anyOf", given.get("allOf", [])) if one != {"type": "null"}]
    if len(among) == 1:
        beside = {key: value for key, value in given.items() if key not in ("anyOf", "allOf", "default")}
        given = {**among[0], **beside}
    schema = {key: value for key, value in given.items() if key != "title"}
    if schema.get("default") == "":
        del schema["default"]
    return schema


def _problem(name: str, status: int, path: str, method: str) -> JSON:
    kind = KINDS[status]
    instance = path.replace("{", "").replace("}", "")
    example = {
        "type": f"/api/v1/docs#problem-{kind.slug}",
        "title": kind.title,
        "status": status,
        "detail": kind.otherwise,
        "instance": instance,
        "request_id": "5c1f0a9be2d74386",
    }
    return {
        "description": MEANS.get((name, status), kind.otherwise),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}},
    }


def _headers(name: str, status: int) -> JSON:
    text = {"type": "string"}
    headers: JSON = {
        REQUEST_ID: {"description": "The request's id, also where it succeeded.", "schema": text, "required": True}
    }
    if status == 401:
        headers["WWW-Authenticate"] = {"description": "How to call (RFC 6750).", "schema": text, "required": True}
    if status in (429, 503):
        headers["Retry-After"] = {"description": "Seconds to wait.", "schema": text, "required": True}
    if name == "startRun" and status < 300:
        headers["Location"] = {"description": "The run's address.", "schema": text, "required": True}
    return headers


# -- examples --------------------------------------------------------------------------------------------------------

_OF_TYPE: Mapping[str, JSON] = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None, "object": {}}


def resolve_reference(document: JSON, given: JSON) -> JSON:
    """Return a schema with its reference resolved. Keys beside the reference win."""
    while "$ref" in given:
        beside = {key: value for key, value in given.items() if key != "$ref"}
        given = {**document["components"]["schemas"][given["$ref"].rpartition("/")[2]], **beside}
    return given


def example(document: JSON, given: JSON) -> JSON:
    """Return an example of a schema: the author's, if there is one."""
    given = resolve_reference(document, given)
    if "example" in given:
        return given["example"]
    for key in ("examples", "enum"):
        if given.get(key):
            return given[key][0]
    if "const" in given:
        return given["const"]
    if "default" in given:
        return given["default"]
    if "anyOf" in given:
        return example(document, given["anyOf"][0])
    if "properties" in given:
        return {name: example(document, one) for name, one in given["properties"].items()}
    if given.get("type") == "array":
        return [example(document, given["items"])]
    return _OF_TYPE.get(given.get("type", "null"))


MEANS: Mapping[tuple[str, int], str] = {
    ("startRun", 200): "The run that an earlier request with this Idempotency-Key and this body started.",
    ("startRun", 201): "The run that was started.",
    ("startRun", 404): "There is no published fabric of that name.",
    ("startRun", 409): "New runs are stopped, which the problem's code says; or the Idempotency-Key was used with another body.",
    ("startRun", 413): "The request, a document or the whole body is too large.",
    ("startRun", 422): "Something in the body is not acceptable: a tier that the fabric does not allow, a document that is no text ...",
    ("labelRun", 200): "All its labels after the change.",
    ("labelRun", 409): "It is a child run, which has its root's labels.",
    ("labelRun", 422): "A label is not acceptable, or none is named.",
    ("getDashboard", 200): "The figures.",
    ("getDashboard", 422): "The query, the range, the bucket, the grouping or the zone is none.",
    ("getDashboard", 503): "The database took too long.",
    ("exportRuns", 200): "The runs, as lines of JSON or CSV.",
    ("exportRuns", 422): "The query, the order or the zone is none.",
    ("exportRuns", 503): "The database took too long.",
    ("cancelRun", 202): "The cancellation is recorded; the run ends when its calls are abandoned.",
    ("cancelRun", 409): "The run has ended already.",
    ("terminateRun", 202): "The termination is recorded; the run ends at once when its owner takes it.",
    ("terminateRun", 409): "The run has ended already.",
    ("pauseRun", 202): "The pause is recorded; calls in flight still come back.",
    ("pauseRun", 409): "The run has ended already.",
    ("resumeRun", 202): "Recorded; the run continues with its remaining time.",
    ("resumeRun", 409): "The run has ended already.",
    ("listRunJobs", 200): "The newest jobs that the caller sees.",
    ("beginRunJob", 200): "The job that an earlier request with this Idempotency-Key and this body began.",
    ("beginRunJob", 201): "The job was begun; its runs are fixed.",
    ("beginRunJob", 404): "A named run is not there.",
    ("beginRunJob", 409): "The Idempotency-Key was used with another body.",
    ("beginRunJob", 422): "The query is not understood, no run or too many runs match, or a reason is missing.",
    ("getRunJob", 200): "The job with its counts and refusals.",
    ("stopRunJob", 202): "Recorded; the job ends after its present batch.",
    ("stopRunJob", 409): "The job has ended.",
    ("sayToRun", 202): "Recorded; the next speaker reads it after the current turn.",
    ("sayToRun", 409): "The run has ended or is ending, its workers take no turns, or the Idempotency-Key was used for another message.",
    ("sayToRun", 422): "The text is empty or too long.",
    ("writeContextOfRun", 202): "It is recorded; rules of the graph see it after the turn in flight.",
    ("writeContextOfRun", 409): "The run has ended or is ending, its workers take no turns, or the Idempotency-Key was used for another change.",
    ("writeContextOfRun", 413): "The value has too many bytes.",
    ("writeContextOfRun", 422): "Nothing is written, too many variables are, or one has no name that may be written.",
    ("forkRun", 200): "The run that an earlier request with this Idempotency-Key and this body started.",
    ("forkRun", 201): "The run that was started.",
    ("forkRun", 409): "Nothing is left to do at that event, its contents were erased, the Idempotency-Key was used with another body, or new runs are stopped.",
    ("forkRun", 413): "The edit is too large.",
    ("forkRun", 422): "The run has no such event, or the edit does not fit.",
    ("exportRun", 200): "The bundle: a ZIP file with the events as NDJSON, the revision, the decisions, the chain and what verifies them offline.",
    ("exportRun", 403): "The caller may not take a journal away byte for byte.",
    ("exportRun", 503): "The installation has no key to sign with, or no place to write to, or the run does not stand still.",
    ("decideReview", 200): "The answer is recorded; the run continues with it.",
    ("decideReview", 403): "The caller is not asked, it is their own, or in high-stakes their sign-in is too old, or they come with a token.",
    ("decideReview", 409): "The review was answered otherwise, withdrawn, claimed by another person, or its content changed. If answered, the problem's answer says who gave which answer and when; if claimed, its claim says by whom and until when.",
    ("undoDecision", 200): "The answer does not count; the review is open again.",
    ("undoDecision", 403): "Another person gave the answer.",
    ("undoDecision", 409): "The run was faster, or there is no answer to take back.",
    ("continueDecision", 200): "The run takes the answer at once.",
    ("continueDecision", 403): "Another person gave the answer.",
    ("continueDecision", 409): "There is no answer, or it was undone.",
    ("listStops", 200): "The stops.",
    ("stopNewRuns", 201): "No new run starts.",
    ("stopNewRuns", 404): "There is no such fabric.",
    ("stopNewRuns", 409): "They are stopped already.",
    ("allowNewRuns", 200): "New runs may start, unless another stop stands.",
    ("allowNewRuns", 404): "There is no such stop.",
    ("allowNewRuns", 409): "It has ended, and no run is left to resume.",
    ("listAuditRecords", 200): "The records.",
    ("listAuditRecords", 422): "The cursor or the act is none.",
    ("getAuditRecord", 200): "The record.",
    ("getAuditRecord", 404): "There is no such record; it may have been removed, as its rule says.",
    ("exportAuditRecords", 200): "The file.",
    ("listHolds", 200): "The holds.",
    ("placeHold", 200): "It stands.",
    ("placeHold", 404): "There is no such run, fabric or person.",
    ("placeHold", 409): "It is under a hold already.",
    ("liftHold", 200): "It is lifted.",
    ("liftHold", 404): "There is no such hold.",
    ("liftHold", 409): "It was lifted before.",
    ("listFabrics", 200): "The fabrics.",
    ("getFabric", 200): "The fabric.",
    ("publishFabric", 200): "It is published, or would be.",
    ("publishFabric", 409): "Another revision is published than was expected.",
    ("publishFabric", 413): "It is too long.",
    ("publishFabric", 422): "It cannot be published; the problem's problems say why, each with its path and line.",
    ("lintFabric", 200): "The findings.",
    ("lintFabric", 413): "The whole body is too large.",
    ("revertFabric", 200): "It is the published one.",
    ("revertFabric", 404): "There is no such fabric or revision.",
    ("revertFabric", 409): "Another revision is published than was expected, or this one was made by another version of Fabric Flow.",
    ("revertFabric", 422): "Today's rules refuse it; the problem's problems say why.",
    ("listDrafts", 200): "The drafts.",
    ("importDraft", 201): "It is stored, even with errors.",
    ("importDraft", 409): "The caller has a draft of that name.",
    ("importDraft", 413): "It is too long.",
    ("getDraft", 200): "The draft.",
    ("getDraft", 404): "The caller has no draft of that fabric.",
    ("getFabricYaml", 200): "The YAML.",
    ("getFabricYaml", 404): "There is no such fabric or revision.",
    ("compareRevisions", 200): "The differences.",
    ("compareRevisions", 404): "There is no such fabric or revision.",
    ("getFabricSchema", 200): "The schema.",
    ("getCostPerSuccess", 200): "Cost of a success.",
    ("listMemories", 200): "Memories of the fabric.",
    ("getMemoryHistory", 200): "Entries of the key, with their origin.",
    ("getMemoryHistory", 404): "There is no such fabric or memory, or nothing was ever written there.",
    ("revealMemory", 200): "The key's history, that version with its credentials. The look is recorded in the audit stream.",
    ("revealMemory", 403): "The caller has not the role safety.",
    ("revealMemory", 404): "There is no such fabric or memory, or nothing was ever written there.",
    ("revealMemory", 409): "Nothing of it is withheld.",
    ("exportMemories", 200): "The ledger: a line of JSON an entry.",
    ("exportMemories", 404): "There is no such fabric or memory.",
    ("listChangeRequests", 200): "Those that wait; empty where none does.",
    ("openChangeRequest", 201): "It waits for approval by a second person; an identical request returns the same one.",
    ("openChangeRequest", 409): "No second person is needed, it is the published content already, or another revision is published.",
    ("openChangeRequest", 413): "The fabric is too long.",
    ("openChangeRequest", 422): "The fabric could not be published: errors says why.",
    ("getChangeRequest", 200): "The request, with its text.",
    ("approveChangeRequest", 200): "It is published, exactly as it was asked for.",
    ("approveChangeRequest", 403): "Its author and service accounts agree to nothing.",
    ("approveChangeRequest", 409): "The request is closed, another revision was published since, or its content differs.",
    ("approveChangeRequest", 422): "The fabric cannot be published any more: errors says why.",
    ("rejectChangeRequest", 200): "It is rejected.",
    ("rejectChangeRequest", 403): "Its author withdraws it, and service accounts decide nothing.",
    ("rejectChangeRequest", 409): "The request is closed.",
    ("withdrawChangeRequest", 200): "It is withdrawn.",
    ("withdrawChangeRequest", 403): "Another person made the request.",
    ("withdrawChangeRequest", 409): "The request is closed.",
    ("writeMemory", 200): "It is written. New runs read it.",
    ("writeMemory", 404): "There is no such fabric or memory.",
    ("writeMemory", 409): "Another version stands there by now, or as many keys as may hold a value already.",
    ("writeMemory", 413): "The value is too large.",
    ("writeMemory", 422): "The key or the value does not fit the memory.",
    ("deleteMemory", 200): "It is deleted. No run reads it any more.",
    ("deleteMemory", 404): "There is no such fabric, memory or key.",
    ("deleteMemory", 409): "Another version stands there by now.",
    ("listRuns", 200): "A page of runs.",
    ("getRun", 200): "The run.",
    ("getRunAt", 200): "The run as it was then.",
    ("getRunAt", 409): "An event up to there cannot be read.",
    ("getRunAt", 422): "The run has no such event, or no event yet.",
    ("getRunAt", 503): "A very long journal is read; ask again to continue.",
    ("getRunCost", 200): "Its cost.",
    ("explainRun", 200): "Its decisions.",
    ("explainRun", 409): "Its journal cannot be read.",
    ("listRunEvents", 200): "A page of events; empty when there is nothing after the cursor yet.",
    ("streamRunEvents", 200): "Server-sent events until the run ends.",
    ("streamRunEvents", 429): "The caller has too many streams and sockets open, or asked too often.",
    ("countReviews", 200): "How much waits.",
    ("claimNextReview", 200): "The review, in the caller's hand; null where there is none.",
    ("claimReview", 200): "It is in the caller's hand.",
    ("claimReview", 409): "Another person claimed it (the problem's assignment says who and until when), or it is closed.",
    ("reassignReview", 200): "It is in the other's hand, who has half an hour to open it; or it is free for the role.",
    ("reassignReview", 409): "It changed hands at this moment, or is closed.",
    ("beatReview", 200): "How the review stands.",
    ("releaseReview", 200): "True if it was released.",
    ("listChatChannels", 200): "The channels; empty where there is none.",
    ("addChatChannel", 200): "Reviews go there from now on.",
    ("addChatChannel", 403): "The caller does not edit the fabric, or a token named a person's own.",
    ("addChatChannel", 404): "There is no such fabric.",
    ("addChatChannel", 409): "There are as many channels as there may be.",
    ("removeChatChannel", 200): "It is removed.",
    ("removeChatChannel", 404): "There is no such channel.",
    ("listReviewComments", 200): "The comments; empty where there is none.",
    ("commentOnReview", 200): "The comment.",
    ("commentOnReview", 403): "The caller is no person, or may not read the review's contents.",
    ("commentOnReview", 409): "The review has as many comments as it may have.",
    ("snoozeReview", 200): "It is hidden until then, or shows.",
    ("snoozeReview", 403): "The caller is no person, or is not asked.",
    ("snoozeReview", 409): "The review waits no more.",
    ("decideReviews", 200): "Results: some may be recorded and others not.",
    ("decideReviews", 404): "None of them is in this workspace.",
    ("decideReviews", 422): "They are not alike, one is in high-stakes, or one comes twice; nothing was recorded.",
    ("closeFollowUp", 200): "It is closed.",
    ("closeFollowUp", 409): "It was closed otherwise, or the run cannot be forked there.",
    ("listReviews", 200): "A page of reviews.",
    ("getReview", 200): "The review.",
    ("revealReview", 200): "The review's content with its credentials. The look is recorded in the audit stream.",
    ("revealReview", 403): "The caller has not the role safety.",
    ("revealReview", 409): "Nothing of it is withheld.",
    ("revealRunEvent", 200): "The event's content with its credentials. The look is recorded in the audit stream.",
    ("revealRunEvent", 403): "The caller has not the role safety.",
    ("revealRunEvent", 404): "There is no such run in this workspace, or no such event in it.",
    ("revealRunEvent", 409): "Nothing of it is withheld.",
    ("listBreakers", 200): "The breakers.",
    ("openBreaker", 200): "It is open until a person resets it.",
    ("openBreaker", 404): "There is no such breaker in this workspace.",
    ("openBreaker", 409): "It is open already, or changed since it was listed.",
    ("resetBreaker", 200): "It is closed.",
    ("resetBreaker", 404): "There is no such breaker in this workspace.",
    ("resetBreaker", 409): "It is closed already, or changed since it was listed.",
    ("getDrillCoverage", 200): "Drill results of the cells.",
    ("listDrillCoverage", 200): "A page of fabrics.",
    ("askForStaleDrills", 202): "They wait for their turn; each has its verdict as soon as it is done.",
    ("askForStaleDrills", 409): "No cell of any fabric is stale, or drills are stopped.",
    ("askForDrills", 202): "They wait for their turn; each has its verdict as soon as it is done.",
    ("askForDrills", 409): "Nothing is stale, all of these cells wait or run already, or drills are stopped.",
    ("getDrill", 200): "The drill.",
    ("getDrillReport", 200): "The report.",
    ("getDrillReport", 409): "It played no scenario, or it still runs, so there is no journal.",
    ("getDrillBatchReport", 200): "The report.",
    ("getDrillCoverageReport", 200): "The report.",
    ("getDrillTest", 200): "The test.",
    ("getDrillTest", 409): "It ran live: no test repeats that.",
    ("stopDrills", 200): "The remaining drills are cancelled.",
    ("stopDrills", 403): "Another person started them.",
    ("stopDrills", 409): "All of them have ended.",
    ("listScenarios", 200): "The library.",
    ("importScenario", 201): "It is in the library.",
    ("importScenario", 409): "The name is taken, or the number of scenarios is at its limit.",
    ("importScenario", 413): "It is too long.",
    ("checkScenario", 200): "It can be read.",
    ("checkScenario", 413): "It is too long.",
    ("getScenario", 200): "The scenario.",
    ("exportScenario", 200): "The scenario.",
    ("exportScenario", 409): "This version cannot read it.",
    ("playScenario", 202): "They wait for their turn; each has its verdict as soon as it is done.",
    ("playScenario", 404): "There is no such fabric, revision or scenario.",
    ("playScenario", 409): "It waits or runs already, this version cannot read it, or drills are stopped.",
    ("captureRun", 201): "It is in the library.",
    ("captureRun", 409): "Nothing of the run can be made to happen again, or the name is taken.",
    ("getDrillStop", 200): "The drill stop's state.",
    ("pullDrillStop", 200): "It is pulled: every drill has ended, and none is begun.",
    ("pullDrillStop", 409): "It is pulled already.",
    ("releaseDrillStop", 200): "It rests: drills may be asked for.",
    ("releaseDrillStop", 409): "It is not pulled.",
    ("listDrillSchedules", 200): "The schedules.",
    ("createDrillSchedule", 201): "It is made: it asks at its next instant.",
    ("createDrillSchedule", 404): "There is no such fabric or scenario.",
    ("createDrillSchedule", 409): "The number of schedules is at its limit.",
    ("changeDrillSchedule", 200): "It is changed.",
    ("changeDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("changeDrillSchedule", 409): "It changed since it was listed.",
    ("pauseDrillSchedule", 200): "It is paused.",
    ("pauseDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("pauseDrillSchedule", 409): "It is paused already, or changed since it was listed.",
    ("resumeDrillSchedule", 200): "It still runs.",
    ("resumeDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("resumeDrillSchedule", 409): "It is not paused, or changed since it was listed.",
    ("deleteDrillSchedule", 200): "It is deleted.",
    ("deleteDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("deleteDrillSchedule", 409): "It changed since it was listed.",
    ("runDrillSchedule", 202): "They wait for their turn.",
    ("runDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("runDrillSchedule", 409): "Nothing is stale, all of it waits or runs already, or drills are stopped.",
    ("listDecisions", 200): "A page of decisions.",
    ("exportDecisions", 200): "The decisions, as lines of JSON or CSV.",
    ("exportDecisions", 403): "Others' decisions are for owners and auditors.",
    ("listNotifications", 200): "The newest notifications.",
    ("listMembers", 200): "The members.",
    ("inviteMember", 200): "The invitation, with its link.",
    ("inviteMember", 409): "Too many invitations are open.",
    ("revokeInvitation", 200): "The invitation no longer works.",
    ("revokeInvitation", 404): "There is no such invitation in this workspace.",
    ("revokeInvitation", 409): "It was accepted: remove that member instead.",
    ("createServiceAccount", 200): "The account.",
    ("createServiceAccount", 409): "The name is taken.",
    ("setMemberRoles", 200): "The member, with the roles that hold now.",
    ("setMemberRoles", 404): "There is no such member in this workspace.",
    ("setMemberRoles", 409): "Other roles were given meanwhile, or the last owner would be none any more.",
    ("removeMember", 200): "Sign-ins and tokens are over.",
    ("removeMember", 404): "There is no such member in this workspace.",
    ("removeMember", 409): "It is the last owner, or the local one.",
    ("listTokens", 200): "The tokens.",
    ("createToken", 200): "The token, which is shown this once.",
    ("createToken", 404): "There is no such active member.",
    ("createToken", 409): "A token that is not revoked has the name.",
    ("revokeToken", 200): "The token no longer works.",
    ("revokeToken", 404): "There is no such token in this workspace.",
    ("getMyMail", 200): "Mail settings of the caller.",
    ("setMyMail", 200): "New mail settings of the caller.",
    ("setMyMail", 403): "Members change their mail address themselves, signed in.",
    ("listModels", 200): "The models, and the stored keys without the keys.", ("storeModelKey", 200): "The stored key, by its end.",
    ("getPolicy", 200): "The policy, its rules, and what is spent of the caps of keys.", ("setPolicy", 200): "The current policy.",
    ("setPolicy", 409): "The current version differs from the expected one.",
    ("deleteModelKey", 200): "The deleted key.", ("deleteModelKey", 404): "No key is stored for that endpoint.",
    ("testModel", 200): "The model with the test's result; a failure of the endpoint is part of it.", ("testModel", 404): "There is no such model in this workspace.",
    ("testModel", 409): "A test is already running, too many are, or it may cost more now.",
    ("resendNotification", 200): "It is due now, with all its attempts.",
    ("resendNotification", 404): "There is no such notification in this workspace.",
    ("resendNotification", 409): "It was sent already.",
}  # fmt: skip
"""Meaning of a status for one operation: every success, and every error that is special to it."""

TAGS: Mapping[str, str] = {
    "fabrics": "Configured multi-agent systems and their published revisions.",
    "memories": "Values that fabrics keep between runs.",
    "runs": "Executions of a fabric.",
    "events": "Events of a run, from its journal.",
    "audit": "The audit stream: who did what, from where, and what was refused; legal holds.",
    "breakers": "Circuit breakers: what stops calls to what fails again and again.",
    "drills": "Failures that are made to happen in simulated time, and what the decision table did about them.",
    "scenarios": "Failure scenarios: the library and its drills.",
    "notifications": "Messages by e-mail and webhook.",
    "policy": "Rules of the workspace for all its fabrics, at publication and at each call.",
    "models": "Models of the published fabrics, keys of endpoints, and test calls.",
    "members": "Members of the workspace, with their roles.",
    "reviews": "Reviews that runs wait with, and their answers.",
}
