"""The server sends static files as they are, and templates break no rule of theirs."""

from __future__ import annotations

import hashlib
import re

import pytest
from django.conf import settings

STATIC = settings.BASE_DIR / "static"
REPORT = "scenarios/reports/page.html"
"""A file that people send each other: it brings its style along."""
TEMPLATES = sorted(
    path for path in (settings.BASE_DIR / "templates").rglob("*.html") if not path.as_posix().endswith(REPORT)
)
VENDOR = STATIC / "vendor"
OURS = sorted(path for path in STATIC.rglob("*.js") if path.parent != VENDOR)


def test_what_others_wrote_is_what_was_taken_in():
    listed = dict(line.split(maxsplit=1)[::-1] for line in (VENDOR / "CHECKSUMS.sha256").read_text().splitlines())
    there = {path.name for path in VENDOR.iterdir()} - {"CHECKSUMS.sha256"}
    assert set(listed) == there
    assert {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in there} == listed


FORBIDDEN = {
    "marks text as safe": r"\|\s*safe\b|{%\s*autoescape off|safeseq",
    "runs script from an attribute": r"\shx-on\b|\son(?!e=)\w+=|hx-vals=.js:|hx-trigger=\"[^\"]*\[",
    "styles inline": r"\sstyle=|<style",
    "has a script of its own": r"<script(?![^>]*\ssrc=)(?![^>]*\stype=.application/json)|javascript:",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_template(what):
    assert TEMPLATES
    found = [path.name for path in TEMPLATES if re.search(FORBIDDEN[what], path.read_text())]
    assert found == []


MARKUP = "site/markup.py"
MARKS = r"\bmark_safe\b|\bSafe(?:String|Text)\(|\bSafeData\b|\bhtml_safe\b|def __html__"


def test_nothing_in_the_console_marks_text_as_safe():
    sources = list((settings.BASE_DIR / "console").rglob("*.py"))
    named = {path.relative_to(settings.BASE_DIR / "console").as_posix(): path.read_text() for path in sources}
    marks = {name for name, text in named.items() if re.search(MARKS, text)}
    assert marks == {MARKUP, "pages/texts/markdown.py", "pages/docs/markup.py"}, "where a text becomes markup"
    builds = {name for name, text in named.items() if re.search(r"\bmark_safe_markup\(", text)} - {MARKUP}
    assert builds == {
        "pages/drills/timeline.py",
        "pages/people/account.py",
        "pages/runs/event_line.py",
        "pages/runs/list/chart.py",
        "pages/runs/timeline/shapes.py",
        "templatetags/figures.py",
        "templatetags/said.py",
    }, "each has a test with hostile text"


def test_every_form_that_sends_carries_a_token():
    for path in TEMPLATES:
        for form in re.findall(r"<form\b.*?</form>", path.read_text(), flags=re.DOTALL):
            if 'method="post"' in form.partition(">")[0]:
                assert "{% csrf_token %}" in form, path.name


def test_every_address_in_the_scripts_is_our_own():
    for path in OURS:
        source = path.read_text().replace(
            "http://www.w3.org/2000/svg", ""
        )  # The name of a namespace, which no browser fetches.
        assert not re.search(r"https?://|\beval\(|new Function|innerHTML", source), path.name


def test_every_style_and_script_that_is_named_is_there():
    named = {STATIC / name for path in TEMPLATES for name in re.findall(r"{% static '([^']+)' %}", path.read_text())}
    imported = {
        path.parent.joinpath(name).resolve()
        for path in OURS
        for name in re.findall(r"^import .*?\"([^\"]+)\";$", path.read_text(), flags=re.MULTILINE)
    }
    assert [path for path in named | imported if not path.is_file()] == []
    ours = {path for path in STATIC.rglob("*") if path.suffix in (".css", ".js") and path.parent != VENDOR}
    assert ours - named - imported == set(), "no page fetches it"


@pytest.mark.parametrize("name", ["shell/tokens.css", "icons.svg", "shell/console.js", "vendor/htmx-4.0.1.min.js"])
def test_it_is_served(client, name):
    answer = client.get(f"/static/{name}", headers={"host": "127.0.0.1"})
    assert answer.status_code == 200
    assert "script-src 'nonce-" in answer.headers["Content-Security-Policy"]
