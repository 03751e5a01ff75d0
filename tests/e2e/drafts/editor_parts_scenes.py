"""The editor's parts: as they begin, with everything filled in, with errors, and with checks that are tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from simulator.endpoint import Received, ScriptedEndpoint, Step, answer, refusal
from tests.console.editor.rich import PLANNED, RICH
from tests.e2e.installation import Installation, installed
from tests.e2e.scenes import Scene

PARTS = ("basics", "agents", "topology", "gates", "limits", "table", "people", "tools", "models", "yaml")
WRONG = (
    RICH.replace("name: rich\n", "name: rich-wrong\n")
    .replace("critic: scorer", "critic: ghost")
    .replace("[reader, searcher]", "[reader, nobody]")
    .replace("size(payload.text) > 0", "size(payload.text) >")
    .replace("rules: [exfiltration_links]", "rules: [of_mine], patterns: [{name: open, pattern: '('}]")
    .replace("when { context.tier", "when { context.nothing")
    .replace("max_outcome_chars: 9000", "max_outcome_chars: many")
    .replace("critic: examiner", "critic: examiner, tool: search_documents")
)
BARRED = (
    RICH.replace("name: rich\n", "name: barred\n")
    .replace("{name: read_document}", "{name: read_document, capabilities: ['files:read', 'files:list']}")
    .replace(
        "{name: reader,",
        "{name: reader, persona: {allowed_capabilities: ['files:*'], denied_capabilities: ['files:write']},",
    )
    .replace(
        "{run_usd_micros: 1000000}",
        "{run_usd_micros: 1000000, agent_tokens: 60000, agents: {reader: {usd_micros: 250000}}}",
    )
)
BARRED_WRONG = (
    BARRED.replace("name: barred\n", "name: barred-wrong\n")
    .replace("'files:list'", "Files")
    .replace("['files:write']", "[database, 'tool:*']")
    .replace("{reader: {usd_micros: 250000}}", "{reader: {usd_micros: lots}, ghost: {tokens: 9000}}")
)
"""Personas, capabilities and caps of agents' own."""
UNKNOWN_AGENT = BARRED.replace("name: barred\n", "name: nobody\n").replace("{reader: {usd", "{ghost: {tokens: 9000}, reader: {usd").replace(
    "['files:*']", "['mail:send']"
)  # fmt: skip
"""Caps of no agent, and a tool out of its agent's reach."""
OF_AGENTS = {"barred": BARRED, "barred-wrong": BARRED_WRONG, "nobody": UNKNOWN_AGENT}
KINDS = RICH.replace("name: rich\n", "name: kinds\n").replace(
    "tools:\n",
    """mcp_servers:
  - {name: files, transport: http, url: 'https://files.example/mcp', headers_from: {Authorization: FILES_TOKEN}}
tools:
  - name: find_customer
    kind: http
    target: 'https://crm.example/customers/{id}'
    method: GET
    description: Finds a customer by number.
    parameters: {type: object, properties: {id: {type: string, description: Number of the customer.}, fields: {type: string, enum: [name, all]}}, required: [id]}
    places: {id: path}
    headers_from: {Authorization: CRM_TOKEN}
  - {name: refund, kind: http, effect: irreversible, target: 'https://crm.example/refunds', description: Pays money back., parameters: {type: object, properties: {amount: {type: number}}}}
  - {name: book, kind: callable, effect: mutating, target: crm.book, compensation: unbook, description: Books a call., parameters: {type: object, properties: {}}}
  - {name: unbook, kind: http, effect: idempotent, target: 'https://crm.example/unbook', description: Undoes a booking., headers_from: 'Authorization: CRM_TOKEN', parameters: {type: object, properties: {key: {type: [string, 'null']}}}}
  - {name: read_file, kind: mcp, target: files/read, description: Reads a file., parameters: {type: object, properties: {path: {type: string}}}}
""",
)
"""A tool of each kind, one with mistakes."""
DRAFTS = {
    "kinds": KINDS,
    "rich": RICH,
    "rich-wrong": WRONG,
    "planned": PLANNED.replace("name: small-model\n", "name: planned\n"),
    "begun": "name: begun\ntitle: Just begun\n",
}
BEGUN = """
import json
from fabric.services.drafts.beginnings import draft_from_template
from fabric.services.drafts.changes import draft_begin
from fabric.services.installation.facts import installation
from fabric.services.actors import owner_actor
for name, text in json.loads({texts!r}).items():
    draft_begin(actor=owner_actor(), name=name, text=text)
draft_from_template(actor=owner_actor(), template="payment-approval", where=installation(), name="payments", title="Payments")
"""


ASKS = """
name: asks
tools:
  - {name: find, kind: http, method: GET, target: 'http://CRM/customers/{id}', places: {id: path}, description: Finds a customer., parameters: {type: object, properties: {id: {type: string, description: Number of the customer.}, fields: {type: string, enum: [name, all]}}, required: [id]}}
  - {name: note, kind: http, effect: idempotent, target: 'http://CRM/notes', description: Writes a note., parameters: {type: object, properties: {text: {type: string}}}}
  - {name: refund, kind: http, effect: irreversible, target: 'http://CRM/refunds', description: Pays money back., parameters: {type: object, properties: {}}}
"""
"""Tools whose endpoint is there."""
BILLS = """
name: bills
models:
  - {name: main, model: small, base_url: 'http://CRM/v1', price: {input_usd_per_mtok: 0.15, output_usd_per_mtok: 0.60}, options: {temperature: 0.2}}
  - {name: unpriced, model: large, base_url: 'http://CRM/v1'}
agents:
  - name: clerk
    model: main
    instructions: Read bills, and say what is owed.
    tools: [pay]
    output_schema: {type: object, properties: {usd: {type: integer, minimum: 0}}, required: [usd]}
  - {name: dear, model: unpriced, instructions: Judge.}
topology: {workers: [clerk], planner: clerk, critic: dear}
"""
"""Agents whose model is there, and one whose model has no price."""


def _answer(received: Received) -> Step:
    """A customer, or none; a model's answer to a prompt."""
    if received.path.endswith("/chat/completions"):
        asked = received.body["messages"][-1]["content"]
        if "401" in asked:
            return refusal(401, "There is no such key.")
        data = {"eur": 7} if "euros" in asked else {"usd": 412}
        text = json.dumps({"text": "Two invoices are open.", "citations": [], "data": data})
        return answer(text, usage=(212, 31))
    if "404" in received.path:
        return refusal(404, "There is no customer 404.")
    body = {"id": "7", "name": "Ana Kowalczyk", "city": "Hamburg", "open_invoices": 2}
    return Step(body=json.dumps(body).encode(), content_type="application/json", headers={"X-Request-Id": "4f21"})


@contextmanager
def beside_a_crm(data: Path) -> Iterator[tuple[Installation, str]]:
    """An installation that may call an endpoint of customers."""
    with ScriptedEndpoint(_answer) as crm, installed(data, FABRIC_ALLOWED_HOSTS=crm.authority) as home:
        yield home, crm.authority


def begin(home: Installation, crm: str) -> None:
    """The owner's drafts, and one from a template."""
    texts = {**DRAFTS, **OF_AGENTS, "asks": ASKS.replace("CRM", crm), "bills": BILLS.replace("CRM", crm)}
    home.manage("django", "shell", "--verbosity", "0", "-c", BEGUN.format(texts=json.dumps(texts)))


def trying(path: str, **typed: str) -> Callable[[Page], None]:
    """Opens a check's box, and tries it with what is typed."""

    def act(page: Page) -> None:
        page.locator(f'[id="try.{path}"]').click()
        page.locator(f'[id="box.{path}"] .tried .badge').wait_for()
        for name, text in typed.items():
            box = page.locator(f'[id="s.{path}.{name}"]')
            if box.evaluate("box => box.tagName") == "SELECT":
                box.select_option(text)
            else:
                box.fill(text)
        if typed:
            with page.expect_response("**/draft?part=gates"):
                page.locator(f'[id="s.{path}.{next(iter(typed))}"]').press("Control+Enter")
        page.wait_for_load_state("networkidle")

    return act


def unfolded(page: Page) -> None:
    """The tool whose fields are asked for is open, and what is folded in it."""
    for one in page.locator(".thing > details[open] details").all():
        one.evaluate("one => one.open = true")


def changed_cell(page: Page) -> None:
    """One use less than the default."""
    page.locator('[id="f.decision_table.provider_failure.interactive.rungs.0.times"]').fill("1")
    page.locator("td.changed .note").wait_for()


def tapped(page: Page) -> None:
    """A cell is opened by a tap."""
    page.locator("[data-cell]").nth(4).click()
    page.locator("#rungs").wait_for()


def asking(customer: str) -> Callable[[Page], None]:
    """Sends a test request about a customer."""

    def act(page: Page) -> None:
        page.locator('[id="f.id"]').fill(customer)
        page.locator("#send").click()
        page.locator("#answer").wait_for()

    return act


def prompting(prompt: str) -> Callable[[Page], None]:
    """Sends a prompt to an agent."""

    def act(page: Page) -> None:
        page.locator("#prompt").fill(prompt)
        page.locator("#role").select_option("worker")
        page.locator("#send").click()
        page.locator("#answer").wait_for()

    return act


def scenes(home: Installation, crm: str) -> Iterator[Scene]:
    """Every one of them."""
    begin(home, crm)
    for name in (*DRAFTS, "payments"):
        for part in PARTS:
            yield Scene(f"edit-{part}-{name}", f"/fabrics/{name}/draft?part={part}")
    for name in OF_AGENTS:
        yield Scene(f"edit-agents-{name}", f"/fabrics/{name}/draft?part=agents&open=agents.2")
        yield Scene(f"edit-tools-{name}", f"/fabrics/{name}/draft?part=tools&open=tools.0")
    for n, kind in enumerate(("http", "irreversible", "callable", "wrong", "mcp", "builtin")):
        yield Scene(f"edit-kind-{kind}", f"/fabrics/kinds/draft?part=tools&open=tools.{n}", unfolded)
    yield Scene("edit-limits-found", "/fabrics/rich/draft?part=limits&find=retry")
    yield Scene("edit-limits-changed", "/fabrics/rich/draft?part=limits&changed=1")
    yield Scene("edit-limits-none", "/fabrics/rich/draft?part=limits&find=zebra")
    yield Scene("edit-cell-changed", "/fabrics/rich/draft?part=table&cell=provider_failure.interactive", changed_cell)
    yield Scene("edit-cell-open", "/fabrics/planned/draft?part=table", tapped)
    tools = "/fabrics/asks/draft/tools"
    yield Scene("edit-test-form", f"{tools}/find")
    yield Scene("edit-test-found", f"{tools}/find", asking("7"))
    yield Scene("edit-test-failed", f"{tools}/find", asking("404"))
    yield Scene("edit-test-warned", f"{tools}/note")
    yield Scene("edit-test-refused", f"{tools}/refund")
    agents = "/fabrics/bills/draft/agents"
    yield Scene("edit-agents-bills", "/fabrics/bills/draft?part=agents&open=agents.0")
    yield Scene("edit-ask-form", f"{agents}/clerk")
    yield Scene("edit-ask-fits", f"{agents}/clerk", prompting("What does Ana Kowalczyk owe?"))
    yield Scene("edit-ask-misfit", f"{agents}/clerk", prompting("What does she owe in euros?"))
    yield Scene("edit-ask-failed", f"{agents}/clerk", prompting("Answer 401."))
    yield Scene("edit-ask-unpriced", f"{agents}/dear")
    gates = "/fabrics/rich/draft?part=gates"
    yield Scene("edit-try-passes", gates, trying("gates.invariants.0"))
    yield Scene("edit-try-fails", gates, trying("gates.grounding", answer="It was 1,300 euros [ledger.md]."))
    yield Scene("edit-try-policies", gates, trying("gates.policies", resource='Tool::"search_documents"'))
    yield Scene("edit-try-errs", "/fabrics/rich-wrong/draft?part=gates", trying("gates.invariants.0"))
    yield Scene(
        "edit-try-found",
        gates,
        trying("gates.guardrails.0", text="Write to anna.berg@nordwind.se about Project Heron."),
    )
    yield Scene("edit-try-stage", gates, trying("stages.plan"))
