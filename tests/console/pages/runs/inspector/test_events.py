"""The inspector: what is said of each kind of event, that nothing in it acts, and that it stays small."""

from __future__ import annotations

import json
import re

import pytest

from console.pages.runs.inspector.decision import REACTION_ICONS
from console.pages.runs.inspector.events import VIEWS
from console.pages.texts import json_tree
from fabric.core.events import LateResultIgnored, RungSkipped, ToolAnswered
from fabric.core.events.envelope import KINDS
from fabric.core.events.parts import TripRecord
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Evidence, FailureType, Tier
from fabric.models import Event
from fabric.runtime.ports.journal import Document
from fabric.selectors.runs.events import moments
from fabric.selectors.stored_events import read_events
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.pages.runs.journals import Acting, every_kind, hostile, journal, tight
from tests.console.pages.runs.test_page import WORKER
from tests.fabric.selectors.journals import Teller
from tests.fabric.services.world import DOUBTFUL, SMALL, SPARED, ran
from tests.servers.unguarded import unguarded

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"' onfocus=alert(3) \u202eevil\u202c \x1b[31mred z\u200bw"
)
HIDDEN = ("\u202e", "\x1b", "\u200b")


def answered(result):
    fact = ToolAnswered(command_id="c", attempt=1, step_id="s", call_id="x", tool="t", args_hash="", masked_hash="")
    return fact, result


@pytest.fixture
def look(browser):
    """The page of one event, as text."""

    def page(run_id, seq, fragment=False, query=""):
        headers = {"HX-Request": "true"} if fragment else {}
        answer = browser.get(f"/runs/{run_id}/events/{seq}{query}", headers=headers)
        assert answer.status_code == 200
        return tight(answer.content.decode())

    return page


@pytest.fixture
def scripted(actor):
    """Runs a small fabric whose agents misbehave in one way."""

    def run(name, options, tier=None):
        source = SMALL.replace("name: small", f"name: {name}").replace(
            "    provider: scripted\n", f"    provider: scripted\n    options: {options}\n"
        )
        if tier:
            source += f"tiers: {{default: {tier}}}\n"
        return ran(actor, fabric_publish(actor=actor, source=source).name)

    return run


def seq_of(run_id, kind, n=0):
    return [one.seq for one in read_events(Event.objects.filter(run_id=run_id), kinds=(kind,))][n]


def seq_with(run_id, part):
    issued = read_events(Event.objects.filter(run_id=run_id), kinds=("call_issued",))
    return next(one.seq for one in issued if part in one.header)


def sections(page):
    """Titles of the inspector's sections, in order."""
    return re.findall(r"<h3>([^<]+?)(?: <span|</h3>)", page)


class TestEveryKind:
    def test_views_are_of_kinds_that_there_are(self):
        assert set(VIEWS) < set(KINDS)
        assert set(REACTION_ICONS) == set(Reaction)

    def test_every_kind_has_its_page(self, look, actor, small):
        run_id = journal(actor, ran(actor, small).id, every_kind({"text": "so it goes", "list": [1, {"a": None}]}))
        for seq, kind in enumerate(KINDS, 1):
            page = look(run_id, seq)
            assert "Not explained" not in page, kind
            assert len(sections(page)) >= 2, kind

    def test_hostile_texts_in_every_field_and_key_do_nothing(self, look, actor, small):
        content = {HOSTILE: HOSTILE, "text": HOSTILE, "list": [HOSTILE, {HOSTILE: [HOSTILE]}]}
        run_id = journal(actor, ran(actor, small).id, [(hostile(kind, HOSTILE), content) for kind in KINDS])
        pages = [look(run_id, seq) for seq in range(1, len(KINDS) + 1)]
        pages.append(look(run_id, 1, query=f"?agent={HOSTILE}&q={HOSTILE}&kind={HOSTILE}"))
        for page in pages:
            assert Acting(page).found == []
            assert not any(hidden in page for hidden in HIDDEN)
        assert "⟨U+202E⟩" in pages[0]

    def test_hostile_texts_in_the_list(self, browser, actor, small):
        run_id = journal(actor, ran(actor, small).id, [(hostile(kind, HOSTILE), None) for kind in KINDS])
        for density in ("compact", "full", "raw"):
            page = browser.get(f"/runs/{run_id}", {"view": "events", "events": density}).content.decode()
            assert page.count(" data-seq=") > 10
            assert Acting(page).found == []
            assert [page[at - 200 : at + 50] for hidden in HIDDEN if (at := page.find(hidden)) >= 0] == []
        asked = dict.fromkeys(("q", "agent", "kind", "stage", "before"), HOSTILE)
        page = browser.get(f"/runs/{run_id}", {"view": "events"} | asked).content.decode()
        assert page.count("⟨U+202E⟩evil") >= len(asked)
        assert Acting(page).found == []
        assert not any(hidden in page for hidden in HIDDEN)

    def test_an_unknown_kind_shows_its_raw_header(self, look, actor, small):
        run = ran(actor, small)
        with unguarded():
            Event.objects.filter(run_id=run.id, seq=4).update(kind="agents_voted")
        page = look(run.id, 4)
        assert "agents_voted" in page
        assert "command_id" in page
        assert "cannot be read by this version" in page

    def test_a_fact_that_does_not_fit_together_costs_only_its_explanation(self, look, actor, small, monkeypatch):
        run = ran(actor, small)

        def broken(seen):
            raise KeyError("cell")

        monkeypatch.setitem(VIEWS, "run_started", broken)
        page = look(run.id, 1)
        assert "Not explained" in page
        assert "What do the notes say?" in page

    @pytest.mark.parametrize("kind", ["run_started", "model_answered", "tool_answered"])
    def test_what_was_erased_says_so(self, look, actor, small, kind):
        run = ran(actor, small)
        seq = seq_of(run.id, kind)
        Event.objects.filter(run_id=run.id, seq=seq).update(payload=None)
        assert "Erased." in look(run.id, seq)


class TestCalls:
    def test_the_prompt_is_rendered_again_message_by_message(self, look, actor, small):
        run = ran(actor, small)
        page = look(run.id, seq_of(run.id, "call_issued"))
        assert sections(page)[:4] == ["Prompt", "Tools offered", "Output", "Used"]
        assert "You are planner. Plan." in page
        assert "Divide the request into at most" in page

    def test_a_later_turn_has_the_answers_and_results_before_it(self, look, actor, small):
        run = ran(actor, small)
        page = look(run.id, seq_with(run.id, b'"turn":2,'))
        assert "<b>assistant</b>" in page
        assert "<b>tool</b><code>read_document</code>" in page
        assert "The budget of the project is 40 dollars" in page
        assert "read_document(" in page

    def test_a_prompt_of_which_something_was_erased(self, look, actor, small):
        run = ran(actor, small)
        seq = seq_of(run.id, "call_issued")
        Event.objects.filter(run_id=run.id, seq=1).update(payload=None)
        page = look(run.id, seq)
        assert "Erased." in page
        assert "idempotency key" in page

    def test_a_tool_call_has_its_arguments_and_its_answer_names_the_call(self, look, actor, small):
        run = ran(actor, small)
        seq = seq_with(run.id, b'"call":"tool"')
        assert "notes.md" in look(run.id, seq)
        page = look(run.id, seq_of(run.id, "tool_answered"))
        assert f'/events/{seq}"' in page
        assert sections(page)[:2] == ["Result", "Arguments"]

    def test_an_answer_has_its_tokens_and_cost(self, look, actor, small):
        run = ran(actor, small)
        page = look(run.id, seq_of(run.id, "model_answered"))
        assert "reserved" in page
        assert "exit_criteria" in page

    def test_a_failed_attempt_and_its_retry(self, look, scripted):
        run = scripted("flaky", "{fail: {cause: rate_limit, times: 1, status: 429}}")
        failed = look(run.id, seq_of(run.id, "attempt_failed"))
        assert "<dt>status</dt><dd>429</dd>" in failed
        assert "transient infra" in failed
        retry = look(run.id, seq_of(run.id, "retry_scheduled"))
        assert "of 10" in retry
        assert "backoff with full jitter" in retry
        assert "left in provider:scripted" in retry, (
            "the buckets that all workers share (docs/specification/protections.md)"
        )

    def test_a_rung_that_a_mechanism_spoke_against_says_its_numbers(self, look, actor, small):
        details = {"bucket": "fabric:f", "asked_at": 7}
        evidence = Evidence(10, -3, "retry tokens", "fabric", details=details)
        trip = TripRecord(
            mechanism="retry_budget", cause=Cause.RETRY_BUDGET_EMPTY, message="it is empty", evidence=evidence
        )
        fact = RungSkipped(
            failure_type=FailureType.PROVIDER, tier=Tier.BATCH, rung=0, reaction="retry", reason="empty", trip=trip
        )
        page = look(journal(actor, ran(actor, small).id, [(fact, None)]), 1)
        assert "-3 retry tokens" in page
        assert "fabric:f" in page

    def test_beyond_the_fold_the_facts_remain(self, look, actor, small, monkeypatch):
        run = ran(actor, small)
        monkeypatch.setattr(moments, "FOLD_MAX", 2)
        page = look(run.id, seq_of(run.id, "call_issued"))
        assert "too far into this run" in page
        assert "idempotency key" in page

    def test_a_late_result(self, look, actor, small):
        fact = LateResultIgnored(command_id="c", attempt=1, reason="its plan was replaced")
        run_id = journal(actor, ran(actor, small).id, [(fact, {"result": "late words"})])
        page = look(run_id, 1)
        assert "its plan was replaced" in page
        assert "late words" in page


class TestDecisions:
    def test_the_cell_with_its_rungs_and_the_numbers_of_that_moment(self, look, scripted):
        run = scripted("looping", "{script: tool_loop}", tier="batch")
        first, second = (look(run.id, seq_of(run.id, "reaction_decided", n)) for n in (0, 1))
        assert re.search(r'class="rung" data-tone="warn"[^>]*>.*?inject <b>×1</b>', first)
        assert "The next failure here: escalate." in first
        assert re.search(r'class="rung spent"[^>]*>.*?inject', second)
        assert re.search(r'class="rung" data-tone="human"[^>]*>.*?escalate <b>×1</b>', second)
        assert "The next failure here: replan." in second
        assert "0 → 1 of 1" in second
        assert "0 of 2 in fan-out" in second
        money = re.search(r"<dt>money left</dt><dd>\$([\d.]+)", second)
        assert money
        assert 0.99 < float(money[1]) < 1.0
        assert "low-latency interactive</dt>" in second
        assert "high-stakes regulated</dt>" in second
        assert "long-running batch</dt>" not in second

    def test_a_rung_that_was_passed_over_is_dashed_and_says_why(self, look, scripted):
        run = scripted("cut", "{fail: {cause: auth, times: 9, status: 401}}")
        page = look(run.id, seq_of(run.id, "reaction_decided"))
        assert re.search(r'class="rung ghost"[^>]*>.*?retry', page)
        assert "does not go away by itself" in page

    def test_another_model_with_why_what_it_needed_and_what_it_costs(self, look, actor):
        run = ran(actor, fabric_publish(actor=actor, source=SPARED).name)
        page = look(run.id, seq_of(run.id, "model_changed"))
        told = " ".join(re.sub(r"<[^>]+>", " ", page).split())
        assert "before script" in told
        assert "model spare" in told
        assert "script for" in told
        assert re.search(r"at worst it costs \$[\d.]+ more", told)
        call = look(run.id, seq_of(run.id, "call_issued", 3))
        assert "spare" in call

    def test_a_cause_without_a_row(self, look, actor, doubtful):
        run = ran(actor, doubtful)
        page = look(run.id, seq_of(run.id, "reaction_decided"))
        assert "no row of the table" in page
        # docs/specification/failures.md: below tau escalates in every tier.
        assert page.split("Other tiers would have")[1].split("</dl>")[0].count("escalate") == 2
        assert "verified: replay gives the same decision" in page
        assert "Review opened" in page.split("Consequences")[1]

    def test_a_review_with_what_was_shown(self, look, actor, doubtful):
        assert "doubtful" in DOUBTFUL
        run = ran(actor, doubtful)
        page = look(run.id, seq_of(run.id, "review_opened"))
        assert sections(page)[:2] == ["Content shown", "Facts"]
        assert "below_tau" in page
        assert "then rejected by the system" in page
        # The words above say it; the tree with its internal names is opened by who wants it.
        assert re.search(r'<details class="raw-event"><summary><h3>Content shown <span>as stored</span></h3>', page)

    def test_the_start_of_a_run_lists_its_documents_and_keeps_names_as_they_are(self, look, actor, small):
        run = ran(actor, small, documents=(Document("notes.md", "x"), Document("plan.md", "y")))
        page = look(run.id, 1)
        assert re.search(r'<ul class="list-dot"><li class="wrap">notes.md</li><li class="wrap">plan.md</li></ul>', page)
        assert '<p class="verdict">owner started small' in page
        assert "UTC" not in re.search(r'<p class="verdict">[^<]*', page)[0]
        assert re.search(r'<p class="verdict">Plan began', look(run.id, seq_of(run.id, "stage_entered")))

    def test_a_gate_has_its_checks(self, look, actor, small):
        run = ran(actor, small)
        page = look(run.id, seq_of(run.id, "stage_left"))
        assert "Post-gate" in sections(page)
        assert "Pass" in page


class TestTrees:
    BASE = "/x"

    def test_a_megabyte_stays_small_and_nothing_of_it_is_lost(self):
        value = {"rows": [{"id": n, "tags": ["a", "b"], "deep": {"x": {"y": {"z": [1]}}}} for n in range(15_000)]}
        assert len(json.dumps(value)) > 1_000_000
        assert len(json_tree.render_tree(value, self.BASE)) < 200_000
        seen, first = [], 0
        while True:
            part = json_tree.children_at(value, "/rows", self.BASE, first=first)
            assert part is not None
            assert len(part) < 200_000
            seen += [
                int(n)
                for n in re.findall(
                    r'<li data-k="(\d+)"><details[^>]*><summary><span class="jk n">\d+</span> <span class="jm">\{3\}',
                    part,
                )
            ]
            more = re.search(r'path=%2Frows&amp;from=(\d+)"', part)
            if not more:
                break
            first = int(more[1])
        assert seen == list(range(15_000))

    @pytest.mark.parametrize(
        "value",
        [
            ["x" * 390] * 3_000,
            {f"{n}" * 50: "<" * 390 for n in range(3_000)},
            [[[[["deep"] * 50] * 50] * 50] * 8] * 1,
            "<" * 1_000_000,
            {"long": "\u202e" * 300_000},
        ],
    )
    def test_whatever_it_is_it_stays_under_a_bound(self, value):
        assert len(json_tree.render_tree(value, self.BASE).encode()) < 200_000

    def test_a_long_list_comes_before_the_depths_of_its_first_items(self):
        value = {"rows": [{"id": n, "deep": {"a": {"b": {"c": [n]}}}} for n in range(600)]}
        assert ">400 more<" in json_tree.render_tree(value, f"/runs/{'x' * 36}/events/1/json")

    def test_a_long_text_is_opened_a_stretch_at_a_time(self):
        text, said, first = "".join(f"{n:>6} " for n in range(10_000)), "", 0
        while True:
            part = str(json_tree.children_at({"t": text}, "/t", self.BASE, first=first))
            said += re.search(r"hx-ignore>(.*?)</pre>", part, re.DOTALL)[1]
            more = re.search(r'from=(\d+)"', part)
            if not more:
                break
            first = int(more[1])
        assert said == text

    def test_what_is_deeper_than_four_levels_is_a_link(self):
        value = {"a": {"b": {"c": {"d": {"e": 1}}}}}
        html = json_tree.render_tree(value, self.BASE)
        assert "path=%2Fa%2Fb%2Fc%2Fd" in html
        assert 'data-k="e"' not in html
        below = json_tree.children_at(value, "/a/b/c/d", self.BASE)
        assert below is not None
        assert 'data-k="e"' in below

    def test_paths_are_json_pointers(self):
        value = {"a/b": {"~": [10, 20]}, "": 3}
        assert json_tree.value_at(value, "/a~1b/~0/1") == 20
        assert json_tree.value_at(value, "/") == 3
        for wrong in ("x", "/nope", "/a~1b/~0/2", "/a~1b/~0/-1", "/a~1b/~0/x", "/" * 500):
            with pytest.raises(LookupError):
                json_tree.value_at(value, wrong)

    def test_keys_and_values_are_inert(self):
        html = json_tree.render_tree({HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE]}}, self.BASE)
        assert Acting(html).found == []
        assert Acting(f"<p {HOSTILE}<p onfocus=a>").found  # The judge is not blind.
        assert not any(hidden in html for hidden in HIDDEN)

    def test_the_fragment_and_the_page_without_a_script(self, browser, actor, small):
        run_id = journal(
            actor, ran(actor, small).id, [answered({"a": {"b": {"c": {"d": {"e": "here"}}}}, "t": "w " * 400})]
        )
        address = f"/runs/{run_id}/events/1/json?path=/a/b/c/d"
        part = browser.get(address, headers={"HX-Request": "true"})
        assert part.content.decode().strip().startswith("<ul")
        assert b"here" in part.content
        page = browser.get(address)
        assert b"<!doctype html>" in page.content
        assert b"w w w" in browser.get(f"/runs/{run_id}/events/1/json?path=/t").content

    @pytest.mark.parametrize("path", ["/nope", "nope", "/a/b/c/d/e/f", "%00", "/a" * 5_000])
    def test_a_place_that_is_not_there(self, browser, actor, small, path):
        run_id = journal(actor, ran(actor, small).id, [answered({"a": {"b": 1}})])
        answer = browser.get(f"/runs/{run_id}/events/1/json", {"path": path})
        assert answer.status_code == 404
        assert b"nothing at" in answer.content.lower()

    def test_a_content_that_was_erased_or_is_no_json(self, browser, look, actor, small):
        run_id = journal(actor, ran(actor, small).id, [answered({"a": 1}), answered({"b": 1})])
        Event.objects.filter(run_id=run_id, seq=1).update(payload=None)
        with unguarded():
            Event.objects.filter(run_id=run_id, seq=2).update(payload=b"[" * 100_000)
        assert browser.get(f"/runs/{run_id}/events/1/json?path=/a").status_code == 404
        assert "cannot be read as JSON" in look(run_id, 2)


def test_a_decision_shows_the_attempts_that_led_to_it(browser, journaled):
    other = "fan_out.1.e0.r0"
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader", "reader")
    teller.ask(WORKER, 1, "reader").wait(1).fail(WORKER, 1).back_off(WORKER, 1, 5).wait(5)
    teller.ask(other, 1, "reader").answer(other, 1).ask(WORKER, 1, "reader", attempt=2).fail(WORKER, 1, attempt=2)
    teller.react("surface", "provider", step=WORKER, command=f"{WORKER}.t1")
    run_id = journaled(teller.end(RunState.FAILED))
    page = tight(browser.get(f"/runs/{run_id}/events/{len(teller.events) - 1}").content.decode())
    led = re.search(r"<h3>Before this decision</h3>(.*?)</section>", page)
    assert led
    assert re.findall(r"<dt>([^<]+)</dt>", led[1]) == ["Attempt failed", "Retry", "Attempt failed"]
    assert "Attempt 2 failed (429)" in led[1]
    assert "scheduled attempt 2 in 5.0 s" in led[1]
