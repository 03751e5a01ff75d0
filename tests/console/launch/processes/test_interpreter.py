import ast
import re
import tomllib

import pytest

from console.launch.processes.data_directory import ROOT
from console.launch.processes.interpreter import NEWEST, OLDEST, refusal


@pytest.mark.parametrize("version", [(2, 7), (3, 6), (3, 10)])
def test_an_older_python_is_refused_with_one_sentence(version):
    sentence = refusal(version)
    assert sentence.startswith("Python {}.{} is older than".format(*version))
    assert "python{}.{} manage.py".format(*OLDEST) in sentence
    assert sentence.count("\n") == 0


def test_a_newer_python_is_refused_with_one_sentence():
    sentence = refusal((NEWEST[0], NEWEST[1] + 1))
    assert "is newer than" in sentence
    assert "python{}.{} manage.py".format(*NEWEST) in sentence


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_first_and_the_last_that_will_do(version):
    assert refusal(version) is None


@pytest.mark.parametrize("name", ["manage.py", "console/__init__.py", "console/launch/processes/interpreter.py"])
def test_what_runs_before_the_check_is_readable_by_old_pythons(name):
    source = (ROOT / name).read_text(encoding="ascii")
    ast.parse(source, feature_version=(3, 4))
    assert not re.search(r"\bf\"|:=", source), "not readable by a Python without format strings"


def test_the_package_metadata_says_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*OLDEST, NEWEST[0], NEWEST[1] + 1)
    assert f"Programming Language :: Python :: {NEWEST[0]}.{NEWEST[1]}" in project["classifiers"]
