"""Every form of the console: its fields, what it takes, and what it answers to the same from a page that is older."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.pages.workspaces.views import LIMITS
from tests.simulator.drills.management.sources import plain


@dataclass(frozen=True)
class FormCase:
    """A form: what it is made of, and what it is answered with when it is sent a second time."""

    fields: tuple[str, ...]
    good: Mapping[str, str]
    """What it takes; ``{digest}`` and the like are filled in."""
    stale: int
    """Status of the same again, with something changed, from a page that was made before the first."""
    said: str
    """What that answer says."""
    any_status: tuple[int, ...] = (400, 409, 413, 422)
    """What it may answer to fields that hold anything."""
    done: int = 302
    """Status of what it takes."""
    after: str = ""
    """Form that is sent before it, or it would be refused."""

    @property
    def repeats(self) -> bool:
        """Return True if the same again is taken like the first."""
        return self.stale == self.done


WRITTEN = plain("written")
FORMS = {
    "start": FormCase(
        (
            "fabric",
            "text",
            "tier",
            "priority",
            "session_key",
            "label_key",
            "label_value",
            "start_key",
            "documents",
            "documents-clear",
            "documents_of",
            "example_of",
            "example_from",
            "documents_from",
        ),
        {"fabric": "doubtful", "text": "Why?", "start_key": "page-0001"},
        409,
        "started a run already",
        (404, 409, 413, 422),
    ),
    "run-stops": FormCase(
        ("fabric", "reason", "running", "until"),
        {"fabric": "doubtful", "reason": "Enough.", "running": "finish"},
        409,
        "There is a stop already",
        (302, 404, 409, 413, 422),
    ),
    "run-stop-allow": FormCase(("resume",), {}, 409, "has ended already", (302, 404, 409), after="run-stops"),
    "run-cancel": FormCase(("reason",), {"reason": "Not needed."}, 302, "", (302, 413, 422)),
    "run-terminate": FormCase(("reason",), {"reason": "Not needed."}, 302, "", (302, 413, 422)),
    "run-pause": FormCase(("reason",), {"reason": "Not now."}, 302, "", (302, 413, 422)),
    "run-resume": FormCase((), {}, 302, "", (302,)),
    "runs-jobs-new": FormCase(
        ("action", "all", "q", "run", "reason", "start_key"),
        {"action": "cancel", "all": "1", "start_key": "page-0004"},
        409,
        "began another job already",
        (400, 409, 413, 422),
    ),
    "runs-job-stop": FormCase((), {}, 302, "", (302,)),
    "runs-views": FormCase(
        ("name", "q", "sort", "column", "with_columns", "shared"),
        {"name": "Mine"},
        409,
        "is named",
        (409, 413, 422),
    ),
    "runs-view": FormCase(("act", "name"), {"act": "rename", "name": "Other"}, 302, "", (302, 413, 422)),
    "runs-columns": FormCase(("column", "q", "sort"), {"column": "state"}, 302, "", (302, 400, 413, 422)),
    "run-say": FormCase(
        ("text", "start_key"),
        {"text": "Mind the VAT.", "start_key": "page-0003"},
        409,
        "has no conversation",
        done=409,  # Where it is taken: tests/console/pages/runs/test_messages.py.
    ),
    "run-scenario": FormCase(("name",), {"name": "from-a-run"}, 409, "is that of another scenario", (302, 409, 422)),
    "run-context": FormCase(
        ("name", "value", "delete"),
        {"name": "urgency", "value": "5"},
        409,
        "has no conversation",
        done=409,  # Where it is taken: tests/console/pages/runs/test_context.py.
    ),
    "run-labels": FormCase(
        ("label_key", "label_value"),
        {"label_key": "team", "label_value": "ops"},
        302,
        "",
        (302, 422),
    ),
    "audit-export": FormCase(
        ("form", "within", "actor", "act", "about", "subject", "outcome", "address"),
        {"form": "csv"},
        200,
        "",
        (200, 422),
        done=200,
    ),
    "audit-holds": FormCase(
        ("act", "about", "name", "reason", "hold", "kind", "days"),
        {"act": "place", "about": "person", "name": "colleague", "reason": "A case."},
        409,
        "has a legal hold already",
        (409, 413, 422),
    ),
    "run-export": FormCase((), {}, 200, "", done=200),
    "run-event-reveal": FormCase((), {}, 409, "of event 1 is withheld; look at it as it is", done=409),
    "run-fork": FormCase(
        ("what", "value", "start_key"),
        {"what": "", "value": "", "start_key": "page-0002"},
        302,
        "",
        (302, 409, 413, 422),
    ),
    "decide": FormCase(
        ("verb", "digest", "message", "edited", "typed", "instead", "tool", "cap_usd", "model", "lease"),
        {"verb": "approve", "digest": "{digest}"},
        409,
        "was answered by owner",
    ),
    "reviews-next": FormCase(
        ("tab", "fabric", "tier", "item", "stage", "failure", "role", "text"), {}, 302, "", (302, 400, 413, 422)
    ),
    "reviews-together": FormCase(
        ("item", "sure", "verb", "message"), {"item": ":{digest}"}, 422, "Nothing is picked", done=422
    ),
    "review-changes": FormCase(
        ("verb", "digest", "message", "edited", "typed", "instead", "tool", "cap_usd", "model", "draft"),
        {"verb": "approve", "digest": "{digest}"},
        200,
        "",
        (200, 400, 413),
        done=200,
    ),
    "review-reveal": FormCase((), {}, 409, "is withheld; look at it as it is", done=409),
    "review-claim": FormCase((), {}, 302, ""),
    "review-release": FormCase(("lease",), {"lease": "1"}, 302, "", (302, 400, 413)),
    "review-reassign": FormCase(("to",), {"to": "owner"}, 302, "", (302, 400, 413)),
    "review-close": FormCase(
        ("message", "how", "seq", "verb", "digest", "edited", "typed", "instead", "tool", "cap_usd", "model"),
        {"message": "Done."},
        422,
        "is no follow-up",
        (422, 413),
        done=422,
    ),
    "overview-failures": FormCase(
        ("fabric", "cause", "until", "note"),
        {"fabric": "none", "until": "1"},
        404,
        "look at the overview",
        (404, 400, 413, 422),
        done=404,
    ),
    "review-comment": FormCase(("text",), {"text": "Why 0.55?"}, 302, "", (302, 400, 413, 422)),
    "review-snooze": FormCase(
        ("until", "end"), {"until": "2020-01-01"}, 422, "is past", (302, 422, 400, 413), done=422
    ),
    "reviews-inbox-seen": FormCase(("at",), {"at": "1"}, 302, "", (302, 400, 413)),
    "review-beat": FormCase(("lease", "standing"), {}, 200, "", (200, 400, 413), done=200),
    "reviews-export": FormCase(
        ("within", "fabric", "tier", "item", "verb", "failure", "by", "who", "form"),
        {"form": "csv"},
        200,
        "",
        (200, 403, 413, 422),
        done=200,
    ),
    "notifications-mine": FormCase(
        ("wants", "email"), {"wants": "review", "email": "ana@example.org"}, 302, "", (302, 413, 422)
    ),
    "notifications-channels": FormCase(
        ("channel", "address", "fabric"),
        {"channel": "slack", "address": "https://hooks.slack.com/services/T0/B0/x"},
        302,
        "",
        (302, 409, 413, 422),
    ),
    "notifications-channel-remove": FormCase((), {}, 404, "is no channel", (302, 404)),
    "decision-undo": FormCase(("answer", "page"), {}, 302, "", after="decide"),
    "decision-continue": FormCase(("answer", "page"), {}, 302, "", after="decide"),
    "breaker": FormCase(
        ("act", "generation", "reason"),
        {"act": "open", "generation": "0", "reason": "Maintenance."},
        409,
        "changed meanwhile",
        (400, 404, 409, 413, 422),
    ),
    "drills-ask": FormCase(
        ("fabric", "cells", "number", "seed", "mode", "cap_s", "cap_usd", "reason", "back"),
        {"fabric": "doubtful", "cells": "all", "seed": "7"},
        409,
        "wait to be drilled",
        (302, 404, 409, 413, 422),
    ),
    "drills-stale": FormCase((), {}, 409, "o cell of any fabric is stale", (302, 409)),
    "drills-batch-stop": FormCase(("fabric",), {"fabric": "doubtful"}, 409, "have all ended", (302, 404, 409, 422)),
    "drill-stop": FormCase(
        ("act", "reason"), {"act": "pull", "reason": "Enough."}, 409, "stopped already", (302, 409, 413, 422)
    ),
    "scenario-new": FormCase(
        ("source", "file", "version", "do", "tab"),
        {"source": WRITTEN},
        409,
        "is that of another scenario",
        (409, 413, 422),
    ),
    "scenario-ask": FormCase(
        ("fabric", "number", "tier", "seed", "given", "do", "mode", "sure", "cap_s", "cap_usd", "reason"),
        {"fabric": "doubtful", "tier": "batch", "seed": "7"},
        409,
        "waits to be played",
        (302, 404, 409, 413, 422),
    ),
    "scenario-edit": FormCase(
        ("source", "version", "do", "tab"),
        {"source": WRITTEN.replace("written", "doubtful"), "version": "1"},
        409,
        "it is version 2 by now",
        (404, 409, 413, 422),
    ),
    "scenario-duplicate": FormCase(("to",), {"to": "a-copy"}, 409, "is that of another scenario", (302, 409, 413, 422)),
    "scenario-delete": FormCase(("version",), {"version": "1"}, 404, "no scenario", (404, 409, 413, 422)),
    "fabric-draft-begin": FormCase((), {}, 302, ""),
    "fabric-new": FormCase(
        ("template", "name", "title"),
        {"template": "blank", "name": "begun"},
        409,
        "has a draft of",
        (404, 409, 413, 422),
    ),
    "fabric-import": FormCase(
        ("source", "file", "name", "replace"),
        {"source": "name: read\n", "name": "read"},
        409,
        "has a draft of",
        (302, 409, 413, 422),
    ),
    "fabric-duplicate": FormCase(("to", "number"), {"to": "copied"}, 409, "has a draft of", (302, 404, 409, 413, 422)),
    "fabric-draft-beat": FormCase(("part", "gone", "page"), {"part": "basics"}, 200, "", (200, 204, 413), done=200),
    "fabric-draft": FormCase(
        (
            "step",
            "page",
            "part",
            "do",
            "text",
            "kept",
            "cell",
            "simulate",
            "stage",
            "open",
            "try",
            "tried",
            "changed",
            "find",
            "s.policy.tau.score",
            "x.policy.tau.score",
            "f.title",
            "f.policy.tau",
            "c.title",
        ),
        {"step": "1", "page": "p-1", "part": "basics", "f.title": "Other"},
        302,
        "",
        (200, 302, 404, 409, 413, 422),
    ),
    "fabric-draft-undo": FormCase(
        ("step", "page", "part", "do", "try", "cell", "simulate", "stage", "open", "changed", "find"),
        {"step": "1"},
        409,
        "here is nothing to undo",
        (302, 404, 409, 413, 422),
    ),
    "fabric-draft-redo": FormCase(
        ("step", "page", "part", "do", "try", "cell", "simulate", "stage", "open", "changed", "find"),
        {"step": "0"},
        409,
        "changed since",
        (302, 404, 409, 413, 422),
        after="fabric-draft-undo",
    ),
    "fabric-draft-drills": FormCase(
        ("step", "cells"), {"step": "1", "cells": "all"}, 409, "", (302, 404, 409, 413, 422)
    ),
    "fabric-draft-merge": FormCase(
        ("step", "base", "c.title"),
        {"step": "1", "base": "1"},
        409,
        "nothing to bring in",
        (302, 404, 409, 413, 422),
        done=409,
    ),
    "fabric-revert": FormCase(
        ("number", "expect", "act"), {"number": "1", "expect": "2", "act": "revert"}, 302, "", (302, 404, 409, 413, 422)
    ),
    "fabric-request": FormCase(
        ("act", "digest", "reason"),
        {"act": "reject", "reason": "Not yet."},
        409,
        "was rejected by owner",
        (302, 403, 404, 409, 413, 422),
    ),
    "fabric-draft-publish": FormCase(
        ("step", "act", "message", "publish_at"),
        {"step": "1", "act": "publish"},
        404,
        "has no draft",
        (302, 404, 409, 413, 422),
    ),
    "fabric-draft-tool": FormCase(
        ("typed", "f.usd", "x.usd", "arguments", "agreed", "do"),
        {"typed": "[{{}}, []]", "f.usd": "7"},
        422,
        "is irreversible",
        (200, 413, 422),
        done=422,  # Where it is taken: tests/console/pages/drafts/test_tool_test.py.
    ),
    "fabric-draft-agent": FormCase(
        ("prompt", "role"), {"prompt": "Who are you?"}, 200, "", (200, 413, 422, 429), done=200
    ),
    "fabric-draft-discard": FormCase(("step",), {"step": "1"}, 404, "has no draft", (302, 404, 409, 413, 422)),
    "drills-schedules": FormCase(
        ("fabric", "what", "cron", "reason"),
        {"fabric": "doubtful", "what": "stale", "cron": "0 3 * * *", "reason": "Each night."},
        302,
        "",
        (302, 413, 422),
    ),
    "drills-schedule": FormCase(
        ("act", "version", "fabric", "what", "cron", "reason"),
        {"act": "pause", "version": "1"},
        409,
        "paused it already",
        (302, 403, 404, 409, 413, 422),
    ),
    "fabric-memory-export": FormCase((), {}, 200, "", (200,), done=200),
    "fabric-memory-reveal": FormCase(
        ("key", "version"),
        {"key": "budget", "version": "1"},
        409,
        "is withheld; look at it as it is",
        (404, 409, 413),
        done=409,
    ),
    "fabric-memory": FormCase(
        ("act", "key", "version", "value", "reason"),
        {"key": "budget", "version": "1", "reason": "It is wrong."},
        404,
        "has no value",
        (400, 404, 409, 413, 422),
    ),
    "notification-resend": FormCase(("review", "change"), {}, 302, "", (302, 404)),
    "policy": FormCase(
        (
            *("expect", "irreversible", "tools", "hosts", "waivers", "four_eyes", "protections"),
            *("run_usd", "session_usd"),
            *("tier_interactive", "tier_batch", "tier_high_stakes", "keys"),
            *(f"limit_{name}" for name in LIMITS),
        ),
        {"expect": "0", "hosts": "crm.example.com", "waivers": "nobody", "run_usd": "12.50"},
        409,
        "of the policy is in force, and another was expected",
        (302, 409, 413, 422),
    ),
    "model-key": FormCase(
        ("provider", "host", "key"),
        {"provider": "openai", "host": "https://api.example.org/v1", "key": "sk-0123456789abcdef"},
        302,
        "",
        (302, 413, 422),
    ),
    "model-key-delete": FormCase(
        ("provider", "host"),
        {"provider": "openai", "host": "https://api.example.org/v1"},
        404,
        "No key is stored for",
        (404, 413),
        after="model-key",
    ),
    "model-test": FormCase(
        ("at_most",), {"at_most": "100"}, 422, "answers inside this installation", (404, 413, 422, 429), done=422
    ),
    "member-invite": FormCase(
        ("roles", "names", "email", "days"), {"roles": "viewer"}, 200, "", (409, 413, 422), done=200
    ),
    "member-service": FormCase(
        ("name", "roles", "names"),
        {"name": "a-program", "roles": "operator"},
        409,
        "has the name a-program already",
        (409, 413, 422),
    ),
    "member": FormCase(
        ("act", "before", "roles", "names"),
        {"act": "roles", "before": "viewer", "roles": "auditor"},
        409,
        "was given other roles meanwhile",
        (409, 413, 422),
    ),
    "token-create": FormCase(
        ("name", "scopes", "days", "fabrics"),
        {"name": "a-token", "scopes": "read"},
        409,
        "already; revoke it first",
        done=200,
    ),
    "token-revoke": FormCase(("member",), {}, 404, "token is named", (404,), done=404),
    "account": FormCase(("old", "password", "again"), {}, 422, "Choose a new", (403, 413, 422, 429), done=422),
    "invitation-revoke": FormCase((), {}, 302, "", (302,)),
    "invitation": FormCase(
        ("token", "name", "password", "again", "as"),
        {},
        410,
        "was used, revoked",
        (302, 410, 413, 429),
        done=410,
    ),
    "login": FormCase(
        ("name", "password", "next"),
        {"name": "owner", "password": "not this one"},
        422,
        "do not fit together",
        (413, 422, 429),
        done=422,
    ),
    "login-link": FormCase(
        ("token", "next"), {"next": "/runs"}, 410, "used before or has expired", (410, 413, 429), done=410
    ),
    "login-second": FormCase(("code",), {}, 302, "", (302, 413)),
    "login-passkey": FormCase(("state", "answer", "next"), {}, 422, "showed no passkey", (413, 422, 429), done=422),
    "login-recover": FormCase(("wanted",), {}, 422, "No mail server", (413, 422, 429), done=422),
    "login-password": FormCase(("password", "again"), {}, 410, "used before or has expired", (410, 413), done=410),
    "security-totp": FormCase(("secret", "code", "name"), {}, 422, "has expired", (413, 422), done=422),
    "security-passkey": FormCase(("state", "answer", "name"), {}, 422, "showed no passkey", (413, 422), done=422),
    "security-remove": FormCase(("factor",), {}, 404, "no such second factor", (404, 413), done=404),
    "security-codes": FormCase((), {}, 409, "set one up first", (409,), done=409),
    "sign-ins-end": FormCase(("sign_in",), {}, 302, "", (302, 413)),
    "member-sign-ins": FormCase(
        ("act", "before", "names", "roles"), {}, 422, "The form was incomplete", (413, 422), done=422
    ),
    "logout": FormCase((), {}, 302, "", (302,)),
}
"""Every route that takes a form."""
