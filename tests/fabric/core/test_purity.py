"""The core and the runtime, proven pure: their tests run in a process where Django and everything that does I/O cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
REFUSING = """
import sys

FRAMEWORKS = {
    "django", "celery", "kombu", "channels", "ninja", "httpx", "pydantic_ai", "openai", "psycopg", "redis", "yaml",
    "cedarpy", "cel", "celpy", "jsonschema", "jsonschema_rs",
}

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FRAMEWORKS:
            raise ImportError(f"{name} may not be imported here")

sys.meta_path.insert(0, Refusing())
"""

CLEAN_RUN = """
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import planned

world = ran(spec(), {"planner": planned(4)})
print(world.end.state, len(world.rows), world.rows[-1].hash.hex())
"""

WITHOUT_DJANGO = """
import collections
import pytest

class Count:
    passed = 0

    def pytest_collection_modifyitems(self, items):
        # Every module, and a few tests of each, once, whatever they are given: they all have run already, and what a module imports late is seen by lint-imports.
        once = {(item.path, item.originalname): item for item in reversed(items)}
        seen = collections.Counter()
        few = []
        for item in reversed(once.values()):
            seen[item.path] += 1
            few += [item] if seen[item.path] <= 3 else []
        items[:] = few

    def pytest_runtest_logreport(self, report):
        self.passed += report.when == "call" and report.passed

count = Count()
# The random and the exhaustive ones have run already; where Django is makes no difference to what they find.
# What gates ask of libraries is compiled by an adapter.
again = ("purity", "any_run", "saga_exhaustive", "text", "guardrail_runs", "invariant_runs", "policy_runs", "oracle_runs")
again += ("judge_runs", "several_reviews", "streamed_answers", "releases", "typed_output", "asking_before", "the_agents_answers")
suite = ["tests/fabric/core", "tests/fabric/runtime", *(f"--ignore-glob=*/test_{name}.py" for name in again)]
suite += ["--ignore=tests/fabric/runtime/test_simulated.py", "--ignore=tests/fabric/core/topologies/test_debate_taken_back.py"]
suite += ["--ignore=tests/fabric/core/breaker/test_invariants.py"]
plugins = ["-p", "no:django", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis", "--noconftest"]
code = pytest.main([*suite, *plugins, "-q", "-x", "-o", "addopts=--import-mode=importlib"], plugins=[count])
print()
print(count.passed, "django" in sys.modules)
sys.exit(code)
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", REFUSING + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=environment or None,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done


@pytest.mark.slow
def test_the_tests_of_core_and_runtime_pass_where_django_cannot_be_imported():
    passed, imported = python(WITHOUT_DJANGO).stdout.split()[-2:]
    assert int(passed) > 250
    assert imported == "False"


def test_a_run_gives_the_same_bytes_whatever_the_hash_seed():
    printed = {python(CLEAN_RUN, PYTHONHASHSEED=seed).stdout for seed in ("0", "1", "4711")}
    assert len(printed) == 1
    assert printed.pop().startswith("completed 11 ")


def test_the_finder_refuses_what_it_should():
    with pytest.raises(AssertionError, match="django may not be imported here"):
        python("import django")
