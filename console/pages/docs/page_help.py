"""Each page of the console links to the document that explains it: one table."""

from __future__ import annotations

from collections.abc import Mapping

from console.pages.docs.markup import document_address

PAGE_HELP: Mapping[str, str] = {
    "account": "how-to/set-up-sign-in",
    "api": "reference/api",
    "audit": "how-to/verify-the-audit-trail",
    "breaker": "how-to/stop-calls-and-spending",
    "breakers": "how-to/stop-calls-and-spending",
    "budgets": "how-to/set-a-budget",
    "dashboards": "how-to/find-why-a-run-failed",
    "docs": "README",
    "drill": "how-to/run-drills",
    "drills": "how-to/run-drills",
    "fabric": "reference/fabric",
    "fabric-import": "how-to/keep-fabrics-in-a-repository",
    "fabric-memory": "specification/memory",
    "fabrics": "tutorials/first-fabric",
    "health": "how-to/check-an-installation",
    "invitation": "how-to/manage-members",
    "member": "how-to/manage-members",
    "members": "how-to/manage-members",
    "models": "how-to/connect-a-model",
    "notifications": "how-to/alert-by-webhook",
    "overview": "concepts/run-and-journal",
    "policy": "how-to/set-the-workspace-policy",
    "protections": "specification/protections",
    "review": "how-to/answer-reviews",
    "reviews": "how-to/answer-reviews",
    "run": "how-to/find-why-a-run-failed",
    "run-stops": "how-to/stop-calls-and-spending",
    "runs": "how-to/find-why-a-run-failed",
    "scenario": "how-to/run-drills",
    "scenarios": "how-to/run-drills",
    "search": "README",
    "security": "how-to/set-up-sign-in",
    "start": "tutorials/first-fabric",
    "styleguide": "README",
}
"""Document of a page by its route's name, or by the first word of that name. The whole name wins. Total by test."""


def help_address(route: str) -> str:
    """Return the address of the document that explains a route's page; the list of documents if no row names one."""
    named = PAGE_HELP.get(route) or PAGE_HELP.get(route.partition("-")[0], "README")
    return document_address(f"{named}.md") or document_address("README.md")
