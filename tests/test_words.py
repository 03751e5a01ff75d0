"""One concept has one word: what lost in the glossary is in no name, event, address, table or template."""

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver

from fabric.core.audit.lines import Act
from fabric.core.events.envelope import KINDS
from tests.test_tidy import ROOT, tracked_files

ASKED_BY_A_SERVER = "a tool's server asks this, in the middle of a call"
ASKED_OF_A_MODEL = "a model is asked this"


@dataclass(frozen=True)
class Lost:
    """A word that lost: its form in a name, the word that won, and where it is another concept, with the reason."""

    form: str
    won: str
    names: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    tests: bool = True


LOST = (
    Lost(
        "escalations?",
        "review",
        names={
            "escalation": "the protection, and the mechanism that implements it",
            "allow_privilege_escalation": "a word of Kubernetes",
        },
    ),
    Lost(
        "tickets?|ticketed",
        "follow_up",
        names={"claim_ticket": "the number of a worker's claim"},
        paths={
            "fabric/stores/": "the numbers of claims whose answer was lost",
            "tests/chaos/": "a file that lets a process die at its place",
            "tests/console/pages/runs/start/": "a session key as another system writes it",
            "tests/e2e/runs/test_start.py": "a session key as another system writes it",
        },
    ),
    Lost("levers?", "drill_stop"),
    Lost(
        "questions?",
        "review",
        names={
            "server_questions": ASKED_BY_A_SERVER,
            "question_digest": ASKED_BY_A_SERVER,
            "question_ref": ASKED_BY_A_SERVER,
            "questions_max": ASKED_BY_A_SERVER,
            "questions_without_end": ASKED_BY_A_SERVER,
            "answers_another_question": ASKED_BY_A_SERVER,
        },
        paths={
            "fabric/tools/": ASKED_BY_A_SERVER,
            "fabric/selectors/runs/display/calls.py": ASKED_BY_A_SERVER,
            "fabric/services/importers/fabro/": "the argument of the tool that asks a person",
            "fabric/core/sagas/mutations.py": "what becomes of a call is asked of its tool",
            "simulator/agents/": ASKED_OF_A_MODEL,
            "simulator/endpoint/behaviour/": ASKED_OF_A_MODEL,
            "simulator/scenarios/strikes/answers.py": "what an agent asks its tool",
            "simulator/scenarios/reports/page.py": "the title of a report",
            "static/": "what a page asks the server, or an author in a dialog",
        },
        tests=False,
    ),
    Lost("swaps?", "fallback", paths={"static/": "htmx swaps a part of a page"}, tests=False),
    Lost("stand_ins?", "fallback", tests=False),
    Lost("sub_?runs?", "child_run"),
    Lost("tenants?", "workspace"),
)
ANY = re.compile("|".join(f"(?:{lost.form})" for lost in LOST), re.IGNORECASE)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CODE = re.compile(r"[rbfuRBFU]*(['\"])[\w./:{}=#<>-]*\1")
MARKUP = re.compile(r"\{[{%].*?[%}]\}|\b(?:id|class|name|for|href|data-[\w-]+|aria-[\w-]+)=\"[^\"]*\"", re.DOTALL)
SAID = re.compile(r"\"[^\"{}]* [^\"{}]*\"|hx-swap")


def snake(name: str) -> str:
    """A name's words, joined by underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("-", "_")).lower()


def names_of(path: Path) -> Iterator[str]:
    """The names of a file: of Python its identifiers and the literals that are codes; of a template what is no prose."""
    if path.suffix == ".html":
        text = " ".join(SAID.sub(" ", found.group()) for found in MARKUP.finditer(path.read_text()))
        yield from re.findall(r"[A-Za-z_][\w-]*", text)
    elif path.suffix in (".js", ".css"):
        yield from NAME.findall(re.sub(r"//[^\n]*|/\*.*?\*/|hx-swap", " ", path.read_text(), flags=re.DOTALL))
    else:
        yield from names_in(path.read_text())


def names_in(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.string
        elif token.type == tokenize.STRING and CODE.fullmatch(token.string):
            yield from NAME.findall(token.string.replace("-", "_"))


@cache
def names_by_file() -> dict[str, frozenset[str]]:
    """The names of each file, those of its path among them."""
    found = {}
    for path in tracked_files():
        where = path.relative_to(ROOT)
        if path.suffix in (".py", ".html", ".js", ".css") and where.name != "test_words.py":
            named = names_of(path) if ANY.search(path.read_text()) else ()
            found[str(where)] = frozenset((*named, *where.with_suffix("").parts))
    return found


def losers(name: str, where: str = "") -> Iterator[str]:
    """Yield what lost in a name, with the word that won."""
    if not ANY.search(name):
        return
    words = snake(name).strip("_")
    if where.startswith("tests/") and name.startswith("test_"):
        return  # A sentence: a claim may name the word of its source.
    for lost in LOST:
        if re.search(rf"(?:^|_)(?:{lost.form})(?:_|$)", words) and not (
            words in lost.names
            or any(where.startswith(path) for path in lost.paths)
            or (where.startswith("tests/") and not lost.tests)
        ):
            yield f"{name}: say {lost.won}"


@pytest.mark.parametrize("folder", ["fabric", "simulator", "console", "templates", "static", "tests"])
def test_no_name_has_a_word_that_lost(folder):
    files = {where: names for where, names in names_by_file().items() if where.startswith(f"{folder}/")}
    assert files
    found = {f"{where}: {said}" for where, names in files.items() for name in names for said in losers(name, where)}
    assert sorted(found) == []


def routes(resolver: URLResolver) -> Iterator[str]:
    for one in resolver.url_patterns:
        yield str(one.pattern)
        if isinstance(one, URLResolver):
            yield from routes(one)
        elif isinstance(one, URLPattern):
            yield one.name or ""


def test_no_event_address_act_or_table_has_a_word_that_lost():
    tables = [model._meta.db_table for model in apps.get_models()]
    columns = [one.column for model in apps.get_models() for one in model._meta.concrete_fields]
    names = {*KINDS, *Act, *tables, *columns}
    addresses = {word for route in routes(get_resolver()) for word in NAME.findall(route.replace("-", "_"))}
    assert sorted(said for name in names | addresses for said in losers(name)) == []


@pytest.mark.parametrize(
    ("name", "won"),
    [
        ("escalation_id", "review"),
        ("EscalationView", "review"),
        ("api-escalations-decide", "review"),
        ("TicketClosure", "follow_up"),
        ("drill_lever", "drill_stop"),
        ("OpenQuestion", "review"),
        ("SWAP_PLANTS", "fallback"),
        ("_stand_ins", "fallback"),
    ],
)
def test_a_word_that_lost_is_found(name, won):
    assert list(losers(name, "fabric/core/engine.py")) == [f"{name}: say {won}"]


@pytest.mark.parametrize("name", ["escalation", "claim_ticket", "clever", "review_id", "follow_up", "question_digest"])
def test_a_word_that_won_is_not(name):
    assert list(losers(name, "fabric/core/engine.py")) == []


def test_each_exception_is_needed():
    """An exception that nothing needs any more lets the next one pass."""
    held = [
        (where, snake(name).strip("_"))
        for where, names in names_by_file().items()
        for name in names
        if ANY.search(name)
    ]
    for lost in LOST:
        form = re.compile(rf"(?:^|_)(?:{lost.form})(?:_|$)")
        of_it = [(where, name) for where, name in held if form.search(name)]
        assert set(lost.names) <= {name for _, name in of_it}
        assert [path for path in lost.paths if not any(where.startswith(path) for where, _ in of_it)] == []


LABEL = re.compile(
    r"<(h[1-6]|th|dt|label|legend|summary|option|caption)\b[^>]*>(?P<element>.*?)</\1>"
    r"|class=\"sub\">(?P<beside>.*?)</span>|(?:aria-label|title)=\"(?P<attribute>[^\"]*)\"",
    re.DOTALL,
)
PART = re.compile(r"<[^>]*>|\{%.*?%\}", re.DOTALL)
ASKS = re.compile(r"(?:who|whoever|whose|what|whatever|whether)\b", re.IGNORECASE)


def asking_labels(source: str) -> list[str]:
    """Return the labels of a template that begin with a question word."""
    labels = [found["element"] or found["beside"] or found["attribute"] or "" for found in LABEL.finditer(source)]
    return [part.strip() for label in labels for part in PART.split(label) if ASKS.match(part.strip())]


def test_each_label_of_a_page_names_its_thing():
    pages = [path for path in tracked_files() if path.suffix == ".html"]
    assert pages
    found = [f"{path.relative_to(ROOT)}: {said}" for path in pages for said in asking_labels(path.read_text())]
    assert found == [], "name the thing: Changes, Object, Next steps"


@pytest.mark.parametrize(
    "source",
    [
        "<h2 id='h'>What changes</h2>",
        '<th scope="col">Whose</th>',
        "<h2>{% if done %}Reason{% else %}What is stuck{% endif %}</h2>",
        "<h2>Limits <span>{% if trip %}what fired{% endif %} first</span></h2>",
        '<h2>Fabric</h2><span class="sub">what it is for</span>',
        '<ul aria-label="What is shown"></ul>',
    ],
)
def test_a_label_that_asks_is_found(source):
    assert asking_labels(source)


NO_ONE = re.compile(r"(?:no|some|any|every)bod(?:y|ies)|whoever", re.IGNORECASE)
"""Words without a referent, in names and in prose: name the member, the agent, the worker or the reader."""
STANDS_FOR_NONE = "the name of an agent, a model or a mailbox that there is not"
STORED = "a stored value of the workspace's policy, and of the API"
VALUES = {
    "fabric/core/workspace_policy/": STORED,
    "console/pages/workspaces/views.py": STORED,
    "simulator/agents/": STANDS_FOR_NONE,
    "simulator/cast/agents.py": STANDS_FOR_NONE,
    "simulator/drills/library/causes.py": STANDS_FOR_NONE,
    "simulator/endpoint/behaviour/": STANDS_FOR_NONE,
    "simulator/faults/fault.py": STANDS_FOR_NONE,
    "simulator/scenarios/strikes/": STANDS_FOR_NONE,
    "simulator/world/outside.py": STANDS_FOR_NONE,
}
"""Where a literal may be such a word."""
PRODUCT = ("fabric/", "simulator/", "console/", "templates/", "static/")
VALUE = re.compile(r"[rbfuRBFU]*(['\"])[\w.@]*\1")
QUOTED = re.compile(r"``[^`]*``")


def words_of(where: str, source: str) -> Iterator[tuple[str, bool]]:
    """Yield the text of names, comments and sentences. True: the text is a literal that is a value.

    A test's literals are samples.
    """
    if not where.endswith(".py"):
        yield source, False
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT):
            yield token.string, False
        elif where.startswith(PRODUCT):
            yield QUOTED.sub("", token.string), VALUE.fullmatch(token.string) is not None


def no_ones(where: str, source: str) -> list[str]:
    """Return the words without a referent, other than values in their places."""
    if not NO_ONE.search(source):
        return []
    may = where.startswith(tuple(VALUES))
    return [
        found[0] for text, value in words_of(where, source) if not (value and may) for found in NO_ONE.finditer(text)
    ]


def files_of_words() -> Iterator[tuple[str, str]]:
    """Yield the path and text of each file whose words are ours; of the tests the Python."""
    for path in tracked_files():
        where = str(path.relative_to(ROOT))
        ours = where.startswith(PRODUCT) and "/vendor/" not in where and "/corpora/" not in where
        kinds = (".py", ".html", ".js", ".css", ".yaml") if ours else (".py",)
        if path.suffix in kinds and where.startswith((*PRODUCT, "tests/")) and where != "tests/test_words.py":
            yield where, path.read_text()


def test_names_and_prose_have_referents():
    files = dict(files_of_words())
    assert files
    found = [f"{where}: {word}" for where, text in files.items() for word in no_ones(where, text)]
    assert found == [], "name the member, the agent, the worker or the reader"


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("fabric/core/engine.py", "def _nobody_hears(): ..."),
        ("fabric/core/engine.py", "NOBODY = 1"),
        ("fabric/core/engine.py", "x = 1  # Somebody asked."),
        ("fabric/core/engine.py", 'x = "nobody"'),
        ("fabric/core/engine.py", 'raise ValueError("everybody may read it")'),
        ("simulator/agents/extracts.py", 'x = "nobody else"'),
        ("tests/test_tidy.py", "def test_nobody_works(): ..."),
        ("templates/runs/page.html", "<p>{{ name }} and nobody else</p>"),
        ("static/runs/live.js", "// Whoever sees the page opens one."),
    ],
)
def test_a_word_without_a_referent_is_found(where, source):
    assert no_ones(where, source)


def test_a_value_in_its_place_is_not():
    assert no_ones("simulator/agents/extracts.py", 'x = ["nobody"]') == []


def test_each_place_of_such_a_value_is_needed():
    files = [(where, text) for where, text in files_of_words() if NO_ONE.search(text)]
    used = {
        place
        for place in VALUES
        for where, text in files
        if where.startswith(place)
        for word, value in words_of(where, text)
        if value and NO_ONE.search(word)
    }
    assert used == set(VALUES)
