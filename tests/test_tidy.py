"""The house rules that a machine can check. Each rule names what to do instead."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("fabric", "simulator", "console", "tests")
MODULE_LINES = 600
FUNCTION_LINES = 50

# What the core and the runtime may not import, and what they use instead.
BANNED = {
    "django": "nothing: the engine knows no framework; tables live in fabric/models",
    "celery": "a command in the effects; tasks live in fabric/tasks.py",
    "channels": "a nudge through a port of fabric/runtime/ports/journal.py",
    "ninja": "nothing: the API lives in console/api",
    "httpx": "the Model or Tool port of fabric/runtime/ports/journal.py",
    "httpx2": "the Model or Tool port of fabric/runtime/ports/journal.py",
    "asyncio": "effects returned by RunDriver.step; waiting is the interpreter's work",
    "threading": "effects returned by RunDriver.step; threads are the interpreter's",
    "concurrent": "effects returned by RunDriver.step",
    "queue": "collections.deque",
    "socket": "a port of fabric/runtime/ports/journal.py",
    "subprocess": "the Tool port of fabric/runtime/ports/journal.py",
    "os": "an argument: settings are read in console/settings.py",
    "random": "fabric.core.values.command_ids, keyed by seed, purpose and command id",
    "secrets": "fabric.core.values.command_ids; a secret is an argument",
    "time": "the `now` of the context",
    "logging": "an event: what is worth saying is journaled",
    "uuid": "an id derived from run and seq, or an argument",
    "cedarpy": "the policy evaluator of the context",
    "re2": "the guardrails of the context",
    "cel": "the invariant evaluator of the context",
    "jsonschema": "the schema evaluator of the context",
    "jsonschema_rs": "the schema evaluator of the context",
}
CLOCK = re.compile(r"(?:^|\.)(?:datetime|date)\.(?:now|today|utcnow)$")


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (ROOT / folder).rglob("*.py") if "migrations" not in path.parts)


def tracked_files() -> list[Path]:
    """Everything that is, or is about to be, in version control; without git, everything but caches."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        names = [path for path in ROOT.rglob("*") if "__pycache__" not in path.parts]
    return [path for path in names if path.is_file()]


def test_no_module_is_longer_than_600_lines():
    lengths = {path: len(path.read_text().splitlines()) for path in python_files(*SOURCES)}
    assert lengths, "no sources were found"
    assert {str(path): lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_function_is_longer_than_50_lines():
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path in python_files(*SOURCES)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > FUNCTION_LINES
    ]
    assert long == []


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


OPENERS = re.compile(r"(?:What|Whether|Which|Who|How|Whoever|Whose|Of|The same)\b")
"""Words with which a docstring begins that has no subject: "Return …", "True if …" or a noun say it."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, those of fields and constants too."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield one.lineno, one.value.value.strip()


def test_docstrings_of_the_product_have_subjects():
    found = [
        f"{path}:{line}: {text[:60]}"
        for path in python_files("fabric", "simulator", "console")
        for line, text in docstrings(path)
        if OPENERS.match(text)
    ]
    assert found == []


WORDS_MAX = 20
FIRST = re.compile(r"(?<=[.!?])\s|\n\s*\n")
"""End of the first sentence of a docstring."""


def test_first_sentences_of_docstrings_have_20_words_at_most():
    found = [
        f"{path}:{line}: {count} words"
        for path in python_files("fabric", "simulator", "console")
        for line, text in docstrings(path)
        if (count := len(FIRST.split(text, maxsplit=1)[0].split())) > WORDS_MAX
    ]
    assert found == [], "make two sentences of it"


LINE_MAX = 120
UNFOLDED = ("console/editor", "console/forms")
"""Folders whose prose is not folded yet."""


def prose_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings, without the rows of tables, and the comments that have lines of their own."""
    text = path.read_text()
    lines = text.splitlines()
    for start, written in docstrings(path):
        for number in range(start, start + written.count("\n") + 1):
            if not lines[number - 1].lstrip().startswith("|"):
                yield number, lines[number - 1]
    yield from ((number, line) for number, line in enumerate(lines, 1) if line.lstrip().startswith("#"))


def test_the_prose_of_the_product_is_folded():
    """The formatter keeps code short; it leaves docstrings and comments as they are."""
    paths = (path for path in python_files("fabric", "simulator", "console"))
    found = [
        f"{path}:{number}"
        for path in paths
        if not str(path.relative_to(ROOT)).startswith(UNFOLDED)
        for number, line in prose_lines(path)
        if len(line) > LINE_MAX
    ]
    assert found == []


def test_no_module_is_a_drawer_for_everything():
    assert [path for path in python_files(*SOURCES) if path.stem in ("utils", "util", "misc")] == []


def test_parsed_json_and_the_units_of_time_and_money_have_one_definition():
    pattern = r"^(?:JSON = Any|(?:SECOND_)?US = 1_000_000|MICROS = 1_000_000)$"
    found = grep(pattern, *python_files("fabric", "simulator", "console"))
    assert [line.partition(":")[0] for line in found] == ["fabric/core/values/units.py"] * 3, "import them from there"


def banned_uses(tree: ast.AST) -> Iterator[str]:
    """Yield one sentence for each import or clock call that a pure module may not have."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and CLOCK.search(ast.unparse(node.func)):
            yield f"line {node.lineno}: {ast.unparse(node.func)}(): use the `now` of the context"
        for name in names:
            if instead := BANNED.get(name.partition(".")[0]):
                yield f"line {getattr(node, 'lineno', 0)}: import of {name}: use {instead}"


@pytest.mark.parametrize("package", ["fabric/core", "fabric/runtime", "fabric/auditor"])
def test_the_pure_packages_import_nothing_impure(package):
    files = list(python_files(package))
    assert files, f"{package} has no modules"
    found = [f"{path.relative_to(ROOT)} {use}" for path in files for use in banned_uses(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    ["import random", "from time import monotonic", "import os.path", "datetime.now(UTC)", "datetime.date.today()"],
)
def test_an_impure_line_is_found(source):
    assert len(list(banned_uses(ast.parse(source)))) == 1


IMPORT_EVERYTHING = """
import importlib, pkgutil, sys

class NoDjango:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("django", "celery", "channels", "ninja"):
            raise ImportError(f"{name} may not be imported here")

sys.meta_path.insert(0, NoDjango())
count = 0
for name in ("fabric.core", "fabric.runtime", "fabric.auditor"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
        count += 1
print(count)
"""


def test_the_pure_packages_import_where_django_cannot_be():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_at_the_top_stands_what_belongs_there():
    """Each file that a test or a tool leaves behind would else go into version control one day."""
    folders = {"console", "deploy", "docs", "fabric", "simulator", "static", "templates", "tests", ".ci"}
    files = {
        "manage.py",
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "LICENSE",
        ".gitignore",
    }
    locks = {f"requirements{kind}" for kind in (".in", ".lock", "-test.in", "-test.lock")}
    found = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    assert found - folders - files - locks == set(), "a file at the top that no one named here"


def test_no_row_is_locked_by_reading_it():
    """No one locks a run row: its fence guards each write, and SQLite would ignore the lock besides. A grant is locked while what it lacks is written."""
    found = grep(r"select_for_update|skip_locked", *python_files("fabric", "simulator", "console"))
    assert [line for line in found if "SharedGrant.objects" not in line] == []


def test_no_custom_django_signals():
    """A state change is visible where it is made; Celery's own worker signals are another matter."""
    pattern = r"django\.dispatch|django\.db\.models\.signals|\bpost_save\b|\bpre_save\b"
    assert grep(pattern, *python_files("fabric", "simulator", "console")) == []


def test_no_file_names_a_place_on_a_developers_machine():
    home = r"(?<![\w.])/(?:home|Users|root|work)/[\w.-]"
    recorded = ROOT / "tests" / "data" / "traces"  # Runs of others, word for word.
    ours = (path for path in tracked_files() if is_text(path) and path != Path(__file__) and path.parent != recorded)
    assert grep(home, *ours) == []


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-test.lock", "tests/peers/requirements-peers.lock"])
def test_a_lock_names_no_index_and_hashes_everything(name):
    text = (ROOT / name).read_text()
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links| @ ", text) == []
    pins = re.findall(r"^[\w.-]+==\S+.*$", text, flags=re.MULTILINE)
    assert len(pins) > 10
    assert [pin for pin in pins if not pin.endswith("\\")] == [], "a pin without hashes"


def test_the_lock_of_node_names_no_registry_and_hashes_everything():
    packages = json.loads((ROOT / "tests" / "peers" / "package-lock.json").read_text())["packages"]
    installed = {name: one for name, one in packages.items() if name}
    assert len(installed) > 10
    assert [name for name, one in installed.items() if "resolved" in one or "integrity" not in one] == []


def test_both_locks_name_the_same_versions():
    run, test = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), flags=re.MULTILINE))
        for name in ("requirements.lock", "requirements-test.lock")
    )
    assert {name: test.get(name) for name in run} == run


INLINE = {
    "inline style": r"\sstyle\s*=\s*[\"']",
    "inline handler": r"\son[a-z]+\s*=\s*[\"']|\shx-on[:-]",
    "inline script": r"<script(?![^>]*\bsrc=)(?![^>]*type=[\"']application/json[\"'])[^>]*>",
    "style element": r"<style\b",
    "address of another site": r"(?:src|href)\s*=\s*[\"'](?:https?:)?//",
}


@pytest.mark.parametrize("what", INLINE)
def test_no_page_has(what):
    """The Content-Security-Policy would drop it silently; script and style live in static/."""
    pages = {path for folder in ("templates", "static") for path in (ROOT / folder).rglob("*.html")}
    if what == "style element":
        pages.remove(ROOT / "templates/scenarios/reports/page.html")  # A file by itself, with a policy of its own.
    assert grep(INLINE[what], *pages) == []


def test_no_static_file_is_fetched_from_elsewhere():
    files = [path for path in (ROOT / "static").rglob("*.css") if "vendor" not in path.parts]
    assert grep(r"url\(\s*[\"']?(?:https?:)?//|@import\s", *files) == []


COUNTED = {ROOT / "templates/drafts/head.html", ROOT / "templates/drafts/page.html"}
"""Pages with the age of a draft, which a script counts."""


def test_pages_write_instants_by_one_tag():
    pages = {*(ROOT / "templates").rglob("*.html")} - COUNTED
    assert grep(r"\|(?:date|time):", *pages) == [], "write {% instant AT 'full' %}"


@pytest.mark.django_db
def test_the_migrations_say_what_the_models_say():
    call_command("makemigrations", check=True, dry_run=True, verbosity=1)


def grep(pattern: str, *paths: Path) -> list[str]:
    """Return `file:line text` of every line that the pattern is found in."""
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if re.search(pattern, line)
    ]


def is_text(path: Path) -> bool:
    return path.suffix not in (".png", ".jpg", ".ico", ".woff2", ".gz") and b"\0" not in path.read_bytes()[:4096]
