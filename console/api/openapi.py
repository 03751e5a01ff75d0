"""The schema: what the framework derives from the operations, and what it cannot know: who may call, every error, an example of everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings

from console.api.api import api
from console.api.callers import SCOPES
from console.api.problems import KINDS, MEDIA_TYPE, REQUEST_ID

JSON = Any
ROOT = "/api/v1/"

ALWAYS = (400, 401, 403, 413, 422, 429, 500, 503)
"""Errors that every operation can have. 404 comes with an id in the path, 415 with a body."""

MEANS: Mapping[tuple[str, int], str] = {
    ("startRun", 200): "The run that an earlier request with this Idempotency-Key and this body started.",
    ("startRun", 201): "The run that was started.",
    ("startRun", 404): "There is no published fabric of that name.",
    ("startRun", 409): "The Idempotency-Key was used with another body.",
    ("startRun", 413): "The request, a document or the whole body is too large.",
    ("startRun", 422): "Something in the body is not acceptable: a tier that the fabric does not allow, a document that is no text ...",
    ("cancelRun", 202): "The cancellation is recorded; the run ends once its calls have been let go.",
    ("cancelRun", 409): "The run has ended already.",
    ("terminateRun", 202): "The termination is recorded; the run ends at once when its owner takes it.",
    ("terminateRun", 409): "The run has ended already.",
    ("pauseRun", 202): "The pause is recorded; calls in flight still come back.",
    ("pauseRun", 409): "The run has ended already.",
    ("resumeRun", 202): "It is recorded; the run goes on with the time it had left.",
    ("resumeRun", 409): "The run has ended already.",
    ("forkRun", 200): "The run that an earlier request with this Idempotency-Key and this body started.",
    ("forkRun", 201): "The run that was started.",
    ("forkRun", 409): "Nothing is left to do at that event, its contents were erased, or the Idempotency-Key was used with another body.",
    ("forkRun", 413): "The edit is too large.",
    ("forkRun", 422): "The run has no such event, or the edit does not fit.",
    ("exportRun", 200): "The bundle: a ZIP file with the events as NDJSON, the revision, the decisions, the chain and what verifies them offline.",
    ("exportRun", 503): "The installation has no key to sign with, or no place to write to, or the run does not stand still.",
    ("decideEscalation", 200): "The answer is recorded; the run goes on from there.",
    ("decideEscalation", 403): "The caller is not asked, it is their own, or in high-stakes their sign-in is too old, or they come with a token.",
    ("decideEscalation", 409): "The question was answered otherwise, was withdrawn, is in somebody else's hand, or asks about something else by now. Where it was "
    "answered, the problem's answer says who gave which answer, and when; where it is in hand, its claim says whose, and until when.",
    ("undoDecision", 200): "The answer does not count; the question is open again.",
    ("undoDecision", 403): "Somebody else gave the answer.",
    ("undoDecision", 409): "The run was faster, or there is no answer to take back.",
    ("continueDecision", 200): "The run takes the answer at once.",
    ("continueDecision", 403): "Somebody else gave the answer.",
    ("continueDecision", 409): "There is no answer, or it was taken back.",
    ("listFabrics", 200): "The fabrics.",
    ("getFabric", 200): "The fabric.",
    ("publishFabric", 200): "It is published, or would be.",
    ("publishFabric", 409): "Another revision is published than was expected.",
    ("publishFabric", 413): "It is too long.",
    ("publishFabric", 422): "It cannot be published; the problem's problems say why, each with its path and line.",
    ("lintFabric", 200): "What was found.",
    ("lintFabric", 413): "The whole body is too large.",
    ("revertFabric", 200): "It is the published one.",
    ("revertFabric", 404): "There is no such fabric or revision.",
    ("revertFabric", 409): "Another revision is published than was expected, or this one was made by another version of Fabric Flow.",
    ("revertFabric", 422): "Today's rules refuse it; the problem's problems say why.",
    ("getFabricYaml", 200): "The YAML.",
    ("getFabricYaml", 404): "There is no such fabric or revision.",
    ("compareRevisions", 200): "What differs.",
    ("compareRevisions", 404): "There is no such fabric or revision.",
    ("getFabricSchema", 200): "The schema.",
    ("getCostPerSuccess", 200): "What a success costs.",
    ("listMemories", 200): "What the fabric remembers.",
    ("getMemoryHistory", 200): "What was written there, and what became of it.",
    ("getMemoryHistory", 404): "There is no such fabric or memory, or nothing was ever written there.",
    ("exportMemories", 200): "The ledger: a line of JSON an entry.",
    ("exportMemories", 404): "There is no such fabric or memory.",
    ("writeMemory", 200): "It is written: the runs from now on read it.",
    ("writeMemory", 404): "There is no such fabric or memory.",
    ("writeMemory", 409): "Another version stands there by now, or as many keys as may hold a value already.",
    ("writeMemory", 413): "The value is too large.",
    ("writeMemory", 422): "The key or the value does not fit the memory.",
    ("deleteMemory", 200): "It is deleted: no run reads it any more.",
    ("deleteMemory", 404): "There is no such fabric, memory or key.",
    ("deleteMemory", 409): "Another version stands there by now.",
    ("listRuns", 200): "A page of runs.",
    ("getRun", 200): "The run.",
    ("explainRun", 200): "Its decisions.",
    ("explainRun", 409): "Its journal cannot be read.",
    ("listRunEvents", 200): "A page of events; empty when there is nothing after the cursor yet.",
    ("countEscalations", 200): "How much waits.",
    ("claimNextEscalation", 200): "The question, in the caller's hand; null where there is none.",
    ("claimEscalation", 200): "It is in the caller's hand.",
    ("claimEscalation", 409): "Somebody else has it in hand, and the problem's claim says who and until when; or it is closed.",
    ("reassignEscalation", 200): "It is in the other's hand, who has half an hour to open it.",
    ("reassignEscalation", 409): "It changed hands at this moment, or is closed.",
    ("beatEscalation", 200): "How the question stands.",
    ("releaseEscalation", 200): "Whether it was let go.",
    ("decideEscalations", 200): "What came of each: some may be recorded and others not.",
    ("decideEscalations", 404): "None of them is in this workspace.",
    ("decideEscalations", 422): "They are not alike, one is in high-stakes, or one comes twice; nothing was recorded.",
    ("closeTicket", 200): "It is closed.",
    ("closeTicket", 409): "It was closed otherwise, or the run cannot be forked there.",
    ("listEscalations", 200): "A page of questions.",
    ("getEscalation", 200): "The question.",
    ("listBreakers", 200): "The breakers.",
    ("openBreaker", 200): "It is open, until somebody resets it.",
    ("openBreaker", 404): "There is no such breaker in this workspace.",
    ("openBreaker", 409): "It is open already, or changed since it was listed.",
    ("resetBreaker", 200): "It is closed.",
    ("resetBreaker", 404): "There is no such breaker in this workspace.",
    ("resetBreaker", 409): "It is closed already, or changed since it was listed.",
    ("getDrillCoverage", 200): "What the cells have been shown to do.",
    ("askForDrills", 202): "They wait for their turn; each has its verdict as soon as it is done.",
    ("askForDrills", 409): "Nothing is stale, all of these cells wait or run already, or the lever is pulled.",
    ("getDrill", 200): "The drill.",
    ("getDrillReport", 200): "The report.",
    ("getDrillReport", 409): "It played no scenario, or goes on: there is no journal.",
    ("getDrillBatchReport", 200): "The report.",
    ("getDrillCoverageReport", 200): "The report.",
    ("getDrillTest", 200): "The test.",
    ("getDrillTest", 409): "It ran live: no test repeats that.",
    ("stopDrills", 200): "What was left of them is not done.",
    ("stopDrills", 403): "Somebody else asked for them.",
    ("stopDrills", 409): "All of them have ended.",
    ("listScenarios", 200): "The library.",
    ("importScenario", 201): "It is in the library.",
    ("importScenario", 409): "The name is taken, or there are as many as may be already.",
    ("importScenario", 413): "It is too long.",
    ("checkScenario", 200): "It can be read.",
    ("checkScenario", 413): "It is too long.",
    ("getScenario", 200): "The scenario.",
    ("exportScenario", 200): "The scenario.",
    ("exportScenario", 409): "This version cannot read it.",
    ("playScenario", 202): "They wait for their turn; each has its verdict as soon as it is done.",
    ("playScenario", 404): "There is no such fabric, revision or scenario.",
    ("playScenario", 409): "It waits or runs already, this version cannot read it, or the lever is pulled.",
    ("captureRun", 201): "It is in the library.",
    ("captureRun", 409): "Nothing of the run can be made to happen again, or the name is taken.",
    ("getDrillLever", 200): "How it stands.",
    ("pullDrillLever", 200): "It is pulled: every drill has ended, and none is begun.",
    ("pullDrillLever", 409): "It is pulled already.",
    ("releaseDrillLever", 200): "It rests: drills may be asked for.",
    ("releaseDrillLever", 409): "It is not pulled.",
    ("listDrillSchedules", 200): "The schedules.",
    ("createDrillSchedule", 201): "It is made: it asks at its next instant.",
    ("createDrillSchedule", 404): "There is no such fabric or scenario.",
    ("createDrillSchedule", 409): "There are as many as may be already.",
    ("changeDrillSchedule", 200): "It is changed.",
    ("changeDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("changeDrillSchedule", 409): "It changed since it was listed.",
    ("pauseDrillSchedule", 200): "It is paused.",
    ("pauseDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("pauseDrillSchedule", 409): "It is paused already, or changed since it was listed.",
    ("resumeDrillSchedule", 200): "It goes on.",
    ("resumeDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("resumeDrillSchedule", 409): "It is not paused, or changed since it was listed.",
    ("deleteDrillSchedule", 200): "It is deleted.",
    ("deleteDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("deleteDrillSchedule", 409): "It changed since it was listed.",
    ("runDrillSchedule", 202): "They wait for their turn.",
    ("runDrillSchedule", 403): "Schedules are for operators and the owner.",
    ("runDrillSchedule", 409): "Nothing is stale, all of it waits or runs already, or the lever is pulled.",
    ("listDecisions", 200): "A page of decisions.",
    ("exportDecisions", 200): "The decisions, as lines of JSON or CSV.",
    ("exportDecisions", 403): "Others' decisions are for owners and auditors.",
    ("listNotifications", 200): "The newest notifications.",
    ("listMembers", 200): "The members.",
    ("inviteMember", 200): "The invitation, with its link.",
    ("inviteMember", 409): "Too many invitations are open.",
    ("revokeInvitation", 200): "Nobody comes in by it any more.",
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
    ("revokeToken", 200): "It lets nobody in any more.",
    ("revokeToken", 404): "There is no such token in this workspace.",
    ("getMyMail", 200): "What the caller is mailed.",
    ("setMyMail", 200): "What the caller is mailed from now on.",
    ("setMyMail", 403): "Where somebody is mailed is for themselves to say, signed in.",
    ("resendNotification", 200): "It is due now, with all its attempts.",
    ("resendNotification", 404): "There is no such notification in this workspace.",
    ("resendNotification", 409): "It was sent already.",
}  # fmt: skip
"""What a status means for one operation: every success, and every error that is special to it."""

TAGS: Mapping[str, str] = {
    "fabrics": "Configured multi-agent systems and their published revisions.",
    "memories": "What fabrics remember beyond their runs.",
    "runs": "Executions of a fabric.",
    "events": "What happened in a run, as its journal has it.",
    "breakers": "Circuit breakers: what stops calls to what fails again and again.",
    "drills": "Failures that are made to happen in virtual time, and what the decision table did about them.",
    "scenarios": "What goes wrong in a run, written down: the library, and what is played of it.",
    "notifications": "What was told by e-mail and webhook.",
    "members": "Who belongs to the workspace, with which roles.",
    "escalations": "Questions that runs wait with, and their answers.",
}

_PROBLEM: JSON = {
    "title": "Problem",
    "description": "Why a request was not carried out (RFC 9457). It changed nothing.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "What kind of problem: an address in the documentation."},
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
                },
            },
        },
        "problems": {
            "type": "array",
            "description": "Of a text that was sent: each thing that is wrong with it, and where.",
            "items": {"$ref": "#/components/schemas/PlacedOut"},
        },
        "answer": {"$ref": "#/components/schemas/AnswerOut", "description": "The answer that a question has already."},
        "claim": {"$ref": "#/components/schemas/ClaimOut", "description": "Who has the question in hand."},
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def schema() -> JSON:
    """The OpenAPI 3.1 document. Not to be changed."""
    made: JSON = dict(api.get_openapi_schema(path_prefix=ROOT))
    made["info"] = {**made["info"], "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}}
    made["servers"] = [{"url": "/", "description": "This installation."}]
    made["tags"] = [{"name": name, "description": means} for name, means in TAGS.items()]
    components = made["components"]
    components["schemas"]["Problem"] = _PROBLEM
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from `manage.py token create NAME --scope read run decide`; each operation names the scope it needs.",
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
    """Every operation: its path, its method in capitals, its description."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def scope_of(operation_id: str) -> str:
    """The scope that a token needs for an operation."""
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
    operation["security"] = [{"token": [scope_of(name)]}, {"session": []}]
    for parameter in operation["parameters"]:
        parameter["schema"] = _sent(parameter["schema"])
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
            content["schema"] = _sent(content["schema"])
            content["example"] = example(document, content["schema"])
    for status in sorted(statuses):
        responses[status] = _problem(name, status, path, method)
    for status, response in responses.items():
        response["headers"] = _headers(name, status)
    operation["responses"] = {str(status): responses[status] for status in sorted(responses)}


def _sent(given: JSON) -> JSON:
    """The schema of what is sent, as a caller sends it: who leaves a parameter out sends no null, and a shape's own default is nothing to send."""
    among = [one for one in given.get("anyOf", given.get("allOf", [])) if one != {"type": "null"}]
    if len(among) == 1:
        beside = {key: value for key, value in given.items() if key not in ("anyOf", "allOf", "default")}
        given = {**among[0], **beside}
    told = {key: value for key, value in given.items() if key != "title"}
    if told.get("default") == "":
        del told["default"]
    return told


def _problem(name: str, status: int, path: str, method: str) -> JSON:
    kind = KINDS[status]
    instance = path.replace("{", "").replace("}", "")
    told = {
        "type": f"/api/v1/docs#problem-{kind.slug}",
        "title": kind.title,
        "status": status,
        "detail": kind.otherwise,
        "instance": instance,
        "request_id": "5c1f0a9be2d74386",
    }
    return {
        "description": MEANS.get((name, status), kind.otherwise),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": told}},
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


# -- examples ----------------------------------------------------------------------------------------------------------

_OF_TYPE: Mapping[str, JSON] = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None, "object": {}}


def resolved(document: JSON, given: JSON) -> JSON:
    """A schema with its reference followed; what stands beside the reference counts more."""
    while "$ref" in given:
        beside = {key: value for key, value in given.items() if key != "$ref"}
        given = {**document["components"]["schemas"][given["$ref"].rpartition("/")[2]], **beside}
    return given


def example(document: JSON, given: JSON) -> JSON:
    """A value that fits a schema: the author's examples where there are any."""
    given = resolved(document, given)
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
