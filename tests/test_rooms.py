"""Rooms of the house: each folder of the product holds one noun, few modules, and looks downward alone.

The floors of whole packages are import contracts in `pyproject.toml`; here stands what no contract can say.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import grimp
import pytest

from tests.test_tidy import tracked_files

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("fabric", "simulator", "console")
MODULES_MAX = 15
"""Modules of a folder, without its `__init__`."""
FULLER = {
    "fabric/core/mechanisms": "one module for each protection, all of one shape",
    "fabric/management/commands": "Django finds each command as a module of this folder",
    "tests/fabric/core/mechanisms": "the tests of each protection, in the folder of the protections",
    "tests/fabric/management/commands": "the tests of each command, in the folder of the commands",
}
"""Folders with more modules, and why."""
TESTS = ROOT / "tests"
TEMPLATES = ROOT / "templates"
STATIC = ROOT / "static"
PAGES = ROOT / "console/pages"
FILES_MAX = 15
"""Files of a folder of templates, or of styles and scripts."""
ROOMS_OF_TEMPLATES = ("api", "editor", "forms", "site")
"""Rooms of `console` whose names are folders of templates too, beside the nouns of `console/pages`."""
ROOMS_OF_STATIC = ("api", "vendor")
"""Folders of styles and scripts beside those nouns."""


def folders() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted(path.parent for path in (ROOT / package).rglob("__init__.py"))


def folders_of_tests() -> Iterator[Path]:
    yield from sorted({path.parent for path in TESTS.rglob("*.py")})


def names_in(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


def test_no_folder_has_more_modules_than_a_room_may_have():
    counts = {
        folder.relative_to(ROOT).as_posix(): len(names_in(folder)) for folder in (*folders(), *folders_of_tests())
    }
    assert {name: count for name, count in counts.items() if count > MODULES_MAX and name not in FULLER} == {}
    assert [name for name in FULLER if counts.get(name, 0) <= MODULES_MAX] == [], "these need no exception any more"


def test_no_name_stands_beside_its_own_plural():
    for folder in folders():
        names = {*names_in(folder), *(path.parent.name for path in folder.glob("*/__init__.py"))}
        assert {name for name in names if f"{name}s" in names} == set(), folder


def plurals(paths: Iterable[Path]) -> set[str]:
    """Files and folders that stand beside their own plural. The prefix of a test counts for nothing."""
    names: defaultdict[Path, set[str]] = defaultdict(set)
    for path in paths:
        for one in (path, *path.parents):
            names[one.parent].add(one.stem.removeprefix("test_"))
    return {f"{folder}/{name}" for folder, found in names.items() for name in found if f"{name}s" in found}


def test_no_file_outside_the_product_stands_beside_its_own_plural():
    files = [path.relative_to(ROOT) for path in tracked_files()]
    assert plurals(path for path in files if path.parts[0] in ("static", "templates", "tests")) == set()
    pairs = (Path("runs/run.css"), Path("runs/runs.css"), Path("a/journal/test_it.py"), Path("a/test_journals.py"))
    assert plurals(pairs) == {"runs/run", "a/journal"}


def test_no_module_has_the_name_of_a_folder_beside_it():
    for folder in folders():
        assert {name for name in names_in(folder) if (folder / name / "__init__.py").exists()} == set(), folder


def test_every_room_says_what_it_is_for():
    silent = [folder for folder in folders() if not (folder / "__init__.py").read_text().startswith('"""')]
    assert [folder.relative_to(ROOT).as_posix() for folder in silent] == []


Graph = Mapping[str, Counter[str]]


@lru_cache(maxsize=1)
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=False)


def arrows(place_of: Mapping[str, str]) -> Graph:
    """Imports from place to place. Modules without a place are left out."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for module, place in place_of.items():
        for imported in imports().find_modules_directly_imported_by(module):
            if place_of.get(imported, place) != place:
                found[place][place_of[imported]] += 1
    return found


def circles(graph: Graph) -> set[frozenset[str]]:
    """Return the sets of places each of which leads back to itself (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(place: str) -> None:
        index[place] = low[place] = len(index)
        stack.append(place)
        for other in graph.get(place, ()):
            if other not in index:
                visit(other)
                low[place] = min(low[place], low[other])
            elif other in stack:
                low[place] = min(low[place], index[other])
        if low[place] == index[place]:
            members = set()
            while place not in members:
                members.add(stack.pop())
            if len(members) > 1:
                found.add(frozenset(members))

    for place in sorted(graph):
        if place not in index:
            visit(place)
    return found


def inits() -> set[str]:
    return {module for module in imports().modules if imports().find_children(module)}


def children(package: str) -> dict[str, str]:
    """The child of a package in which each module below it lies."""
    start = f"{package}."
    return {one: one.removeprefix(start).partition(".")[0] for one in imports().modules if one.startswith(start)}


def test_no_room_leads_back_to_itself():
    rooms = {one: one if one in inits() else one.rpartition(".")[0] for one in imports().modules}
    assert circles(arrows(rooms)) == set()


def test_no_module_leads_back_to_itself():
    assert circles(arrows({one: one for one in imports().modules})) == set()


def test_no_room_with_all_that_lies_in_it_leads_back_to_itself():
    found = {
        package: set().union(*among)
        for package in sorted(inits())
        if (
            among := [
                one for one in circles(arrows(children(package))) if any(f"{package}.{name}" in inits() for name in one)
            ]
        )
    }
    assert found == {}


def test_a_circle_is_found():
    graph = {"a": Counter("b"), "b": Counter("cd"), "c": Counter("a"), "d": Counter()}
    assert circles(graph) == {frozenset("abc")}


def test_an_import_contract_orders_the_rooms_of_each_folder():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    ordered = {
        (container, name.strip("() "))
        for one in contracts
        for container in one.get("containers", ())
        for layer in one["layers"]
        for name in re.split("[|:]", layer)
    }
    missing = set()
    for package in sorted(inits()):
        rooms = {name for name in children(package).values() if f"{package}.{name}" in inits()}
        linked = {name for name, others in arrows(children(package)).items() if name in rooms and rooms & set(others)}
        if linked and {name for name in rooms if (package, name) not in ordered}:
            missing.add(package)
    assert missing == set()


def nouns() -> set[str]:
    return {path.parent.name for path in PAGES.glob("*/__init__.py")}


def folders_with_files(top: Path) -> list[Path]:
    return sorted({path.parent for path in top.rglob("*") if path.is_file()})


def folders_below(top: Path) -> set[str]:
    """The folders of a folder of templates, styles, scripts or tests in which files lie."""
    return {name for folder in folders_with_files(top) for name in folder.relative_to(top).parts[:1]}


def test_templates_lie_in_folders_of_the_pages_nouns():
    assert folders_below(TEMPLATES) - {*nouns(), *ROOMS_OF_TEMPLATES} == set()


def test_styles_and_scripts_lie_in_folders_of_the_pages_nouns():
    assert folders_below(STATIC) - {*nouns(), *ROOMS_OF_STATIC} == set()


def test_what_a_browser_tests_lies_in_folders_of_the_pages_nouns():
    named = {path.relative_to(TESTS / "e2e").parts[0] for path in (TESTS / "e2e").glob("*/*.py")}
    assert named - nouns() == set()


@pytest.mark.parametrize("top", [TEMPLATES, STATIC], ids=lambda top: top.name)
def test_no_folder_of_templates_or_styles_is_fuller_than_a_room_may_be(top):
    counts = {path: sum(one.is_file() for one in path.iterdir()) for path in folders_with_files(top)}
    assert {path.relative_to(ROOT).as_posix(): count for path, count in counts.items() if count > FILES_MAX} == {}


def test_no_template_has_the_name_of_a_folder_beside_it():
    for folder in folders_with_files(TEMPLATES):
        stems = [path.stem for path in folder.iterdir()]
        assert {stem for stem in stems if stems.count(stem) > 1} == set(), folder


def test_a_page_renders_templates_of_its_own_noun():
    strays = {
        f"{path.relative_to(PAGES)}: {name}"
        for path in PAGES.rglob("*.py")
        for name in re.findall(r"\"(\w+/[\w/{}.]+\.html)\"", path.read_text())
        if name.partition("/")[0] != path.relative_to(PAGES).parts[0]
    }
    assert strays == set()


def strange_folders(tests: Path) -> set[str]:
    """Folders of tests that have the name of no room and of no module."""
    below = (path.parent.relative_to(tests) for package in PACKAGES for path in (tests / package).rglob("*.py"))
    return {str(one) for one in below if not ((ROOT / one).is_dir() or (ROOT / f"{one}.py").is_file())}


def test_tests_lie_in_folders_of_the_rooms_that_they_test(tmp_path):
    assert strange_folders(TESTS) == set()
    (tmp_path / "fabric/cellar").mkdir(parents=True)
    (tmp_path / "fabric/cellar/test_wine.py").touch()
    assert strange_folders(tmp_path) == {"fabric/cellar"}
