"""The three sets of tests. Each is fixed: the same commit gives the same answer on every day.

1. `fast` (`manage.py test --fast`): the core and the runtime, and of all else that neither waits nor needs a server one test in twelve; under four minutes.
2. `full` (`manage.py test`): all but what `NIGHTLY` names, of what `SAMPLED` names one of so many, and of any other test at most `CASES_MAX` cases.
3. `nightly` (`manage.py test --nightly`): everything, before a release.

Who names files or folders has all their samples; who names a test has it. A name here that no test has is refused when all tests are collected.
"""

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import pytest

T = TypeVar("T")
SET = "FABRIC_TEST_SET"
"""Variable with the set's name: `fast`, `full`, `nightly`; `named` where files or folders were named."""

FAST_FOLDERS = (
    "tests/fabric/core/",
    "tests/fabric/auditor/",
    "tests/fabric/runtime/",
    "tests/fabric/packing/",
    "tests/test_",
)
"""Folders of which `fast` has every test."""
SLOW_FOLDERS = (
    "tests/documents/",
    *("tests/e2e/", "tests/chaos/", "tests/peers/", "tests/hostile/", "tests/deploy/", "tests/benchmarks/"),
    *("tests/console/launch/", "tests/console/installation/", "tests/fabric/management/test_"),
)
"""Folders that `fast` leaves out."""
FAST_EACH = 12
"""Of so many tests elsewhere, `fast` has one."""
SERVERS = frozenset({"postgresql", "redis", "rabbitmq", "peers", "local_model", "ag2", "slow"})
"""Marks of the tests that `fast` leaves out."""

NIGHTLY = {
    "tests/chaos/mishaps/test_bad_broker.py::*": "messages lost and doubled: `tests/console/test_celery.py`, and each seed of the simulator",
    "tests/chaos/test_chaos.py::*(postgresql-rabbitmq)": "on PostgreSQL and Redis it is in `full`",
    "tests/chaos/test_chaos.py::*(sqlite)": "on PostgreSQL and Redis it is in `full`",
    "tests/chaos/test_parts.py::*(deploy)": "a worker that is replaced: `tests/chaos/mishaps/test_up.py`",
    "tests/chaos/test_parts.py::*(outage)": "a broker that is away: `tests/console/test_celery.py`",
    "tests/chaos/test_parts.py::*(zombies)": "writes under a lost fence: `tests/fabric/stores/writer/test_under_fire.py`",
    "tests/chaos/test_workers.py::*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/chaos/mishaps/test_restored.py::*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/chaos/test_fanout.py::*": "a death at each step of a fan-out: each seed of the simulator",
    "tests/documents/test_tutorials.py::*(first-*)": "the README is in `full`",
    "tests/e2e/overview/test_overview.py::*": "its parts, without a browser: `tests/console/pages/overview`",
    "tests/hostile/test_cel_dos.py::*": "the worst expressions of the largest size: `tests/hostile/test_hostile.py`",
    "tests/e2e/reviews/test_axe.py::*": "each page with what most often stands on it: `tests/e2e/test_axe.py`",
    "tests/e2e/reviews/test_two_people.py::*": "without a browser: `tests/fabric/services/reviews`, `tests/console/pages/reviews`",
    "tests/hostile/test_hostile.py::test_hostile_input_*(documents)": "one file of each kind: `tests/fabric/adapters/documents/test_bounds.py`",
    "tests/console/api/test_at_once.py::test_it_is_done_once(sqlite)": "on PostgreSQL it is in `full`",
    "tests/console/api/test_at_once.py::test_sixty_four_*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/console/api/test_database_away.py::test_a_disk_that_is_full(sqlite)": "on PostgreSQL it is in `full`",
    "tests/console/live/test_outages.py::*(burst-sqlite)": "on PostgreSQL it is in `full`",
    "tests/console/live/test_outages.py::*(killed_server-sqlite)": "on PostgreSQL it is in `full`",
    "tests/console/live/test_outages.py::test_nor_when_it_happens_*": "what a page does once, in the same file, it does a thousand times",
    "tests/console/live/test_outages.py::*(restarted_server-postgresql)": "on SQLite it is in `full`",
    "tests/console/live/test_outages.py::*(sleeping_laptop-sqlite)": "on PostgreSQL it is in `full`",
    "tests/e2e/texts/test_canaries.py::*(postgresql)": "on SQLite it is in `full`",
    "tests/e2e/runs/test_events.py::test_a_burst_of_10_000_*": "without a browser: `burst` in `tests/console/live/test_outages.py`",
    "tests/e2e/texts/test_payloads.py::*": "a text as text: `tests/console/pages/texts/test_markdown.py`, `tests/e2e/shell/test_trusted.py`",
    "tests/fabric/services/reviews/test_at_once.py::*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/benchmarks/test_command.py::test_the_audit_stream_*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/benchmarks/test_command.py::test_the_last_line_*(sqlite*": "on PostgreSQL it is in `full`",
    "tests/benchmarks/test_idle.py::test_runs_that_wait_*": "its figures are made by hand (docs/figures.md)",
    "tests/benchmarks/console/test_pages.py::test_every_view_*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/benchmarks/caps/test_spends.py::test_processes_*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/simulator/drills/test_at_once.py::*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/simulator/drills/test_conductor.py::test_a_real_worker_*(sqlite)": "on PostgreSQL it is in `full`",
    "tests/simulator/drills/live/test_cells.py::test_one_that_passes_a_cap_*(cost)": "with the cap of time it is in `full`",
    "tests/simulator/drills/live/test_cells.py::test_where_the_worker_is_killed_*(postgresql)": "on SQLite it is in `full`",
    "tests/simulator/scoreboard/test_scoreboard.py::*(batch)": "the default tier is in `full`",
    "tests/simulator/scoreboard/test_scoreboard.py::*(high_stakes)": "the default tier is in `full`",
    "tests/console/api/openapi/test_any_request.py::*": "each operation by its own example: `tests/console/api/openapi/test_docs.py`",
}
"""Tests that only `nightly` has: patterns of names, round brackets for square ones, and the tests of `full` that are like them."""

SAMPLED: Mapping[str, int] = {
    # A browser: each page and each way.
    "tests/e2e/test_axe.py::test_what_*": 7,
    "tests/e2e/test_axe.py::test_drills_*": 7,
    "tests/e2e/test_axe.py::test_members_*": 7,
    "tests/e2e/test_axe.py::test_fabrics_*": 7,
    "tests/e2e/test_axe.py::test_an_event_*": 7,
    "tests/e2e/test_axe.py::test_dialogs_*": 7,
    "tests/e2e/test_axe.py::test_s*": 7,
    "tests/e2e/test_axe.py::test_an_installation_*": 3,
    "tests/e2e/drafts/test_beginning.py::*": 8,
    "tests/e2e/models/test_breakers.py::*": 8,
    "tests/e2e/drills/test_drills.py::*": 8,
    "tests/e2e/drafts/test_first_fabric.py::*": 3,
    "tests/e2e/runs/test_first_run.py::*": 8,
    "tests/e2e/runs/test_live.py::*": 8,
    "tests/e2e/reviews/test_reviews.py::*": 8,
    "tests/e2e/drafts/test_rules.py::*": 8,
    "tests/e2e/runs/test_events.py::*": 8,
    "tests/e2e/runs/test_page.py::*": 8,
    "tests/e2e/runs/test_list.py::*": 8,
    "tests/e2e/runs/test_saying.py::*": 8,
    "tests/e2e/shell/test_shell.py::*": 8,
    "tests/e2e/runs/test_start.py::*": 8,
    "tests/e2e/shell/test_trusted.py::*": 8,
    "tests/e2e/drafts/test_two_authors.py::*": 8,
    # Processes that are killed, cut off, drowned. The simulator has the same in each of its seeds.
    "tests/chaos/test_chaos.py::*": 6,
    "tests/chaos/test_command.py::test_a_run_ends_*": 6,
    "tests/chaos/test_parts.py::*": 6,
    "tests/chaos/faults/test_put_away.py::*": 6,
    "tests/chaos/test_sagas.py::*": 6,
    "tests/chaos/mishaps/test_up.py::*": 6,
    "tests/chaos/web/test_web.py::*": 18,
    "tests/chaos/test_workers.py::*": 6,
    "tests/console/live/test_outages.py::*": 8,
    "tests/console/api/test_at_once.py::*": 6,
    "tests/console/api/test_database_away.py::*": 6,
    "tests/console/launch/dependencies/test_environment.py::*": 5,
    "tests/console/launch/test_up.py::*": 5,
    "tests/console/installation/test_commands.py::test_a_backup_*": 2,
    "tests/console/launch/dependencies/test_lockfile.py::*": 2,
    "tests/console/launch/test_suite.py::*": 3,
    "tests/console/test_celery.py::*": 6,
    "tests/console/management/commands/test_prepare.py::*": 8,
    "tests/fabric/management/test_processes.py::*": 6,
    "tests/fabric/management/test_approving.py::test_at_a_terminal_*": 3,
    "tests/fabric/management/test_approving.py::test_a_script_approves_*": 3,
    "tests/fabric/services/fabrics/trials/test_apart.py::*": 3,
    "tests/fabric/composition/test_real_http.py::test_a_run_goes_on_*": 3,
    "tests/fabric/composition/test_odd_endpoints.py::test_every_scenario_ends_*": 3,
    "tests/peers/test_small_model_run.py::*": 2,
    "tests/fabric/services/reviews/test_at_once.py::*": 4,
    "tests/fabric/worker/host/test_mcp.py::*": 3,
    "tests/fabric/tools/mcp/test_*": 6,
    "tests/fabric/tools/functions/test_process_pool.py::*": 2,
    "tests/fabric/worker/test_presence.py::*": 3,
    "tests/benchmarks/*": 7,
    "tests/simulator/booking/*": 2,
    "tests/simulator/drills/test_at_once.py::*": 4,
    "tests/simulator/drills/test_conductor.py::*": 7,
    "tests/simulator/drills/live/test_cells.py::*": 8,
    "tests/simulator/drills/live/test_scenarios.py::*": 6,
    "tests/simulator/drills/live/test_installation.py::*": 6,
    "tests/simulator/world/test_sqlite_world.py::*": 4,
    "tests/simulator/world/test_world.py::test_several_processes_*": 3,
    "tests/simulator/world/test_world.py::test_the_seed_alone_*": 3,
    "tests/test_on_postgresql.py::*": 3,
    # What is tried with each of many alike.
    "tests/console/api/openapi/test_bad_input.py::*": 12,
    "tests/console/site/access/test_callers.py::TestEachOperation::*": 3,
    "tests/console/api/openapi/test_docs.py::TestEachOperation::*": 3,
    "tests/console/editor/parts/test_catalogue.py::*": 3,
    "tests/console/editor/test_trial.py::*": 2,
    "tests/console/site/access/test_actors.py::test_a_form_from_elsewhere_*": 6,
    "tests/console/pages/test_bad_forms.py::test_*_may_be_anything*": 12,
    "tests/console/pages/test_bad_forms.py::test_fields_*": 2,
    "tests/console/pages/test_bad_forms.py::test_from_a_page_*": 14,
    "tests/console/pages/test_bad_forms.py::test_with_its_token_*": 14,
    "tests/console/pages/test_bad_input.py::*": 12,
    "tests/console/site/access/test_rights.py::*": 4,
    "tests/console/launch/variables/test_table.py::test_whatever_*": 2,
    "tests/console/pages/fabrics/test_views.py::test_every_part_*": 3,
    "tests/console/pages/runs/inspector/test_events.py::TestEveryKind::*": 3,
    "tests/console/editor/test_bad_graphs.py::*": 3,
    "tests/console/site/access/test_self_approval.py::test_who_started_a_run_*": 3,
    "tests/fabric/tools/test_contract.py::*": 6,
    "tests/fabric/core/child_runs/test_children_down.py::*": 3,
    "tests/fabric/core/reviews/test_parallel_reviews.py::test_two_to_five_*": 4,
    "tests/fabric/core/values/test_saga_exhaustive.py::*": 4,
    "tests/fabric/core/grounding/test_numbers.py::test_hostile_*": 3,
    "tests/fabric/selectors/audit/test_journal_verification.py::test_random_*": 2,
    "tests/fabric/services/runs/traces/test_agreement.py::*": 3,
    "tests/fabric/services/runs/test_projections.py::*_come_back_*": 4,
    "tests/fabric/services/fabrics/trials/test_trials.py::test_whatever_*": 3,
    "tests/fabric/services/fabrics/yaml/test_export.py::test_no_text_*": 2,
    "tests/fabric/management/commands/test_publication_list.py::*": 3,
    "tests/fabric/management/commands/test_fabric.py::test_what_is_no_*": 3,
    "tests/simulator/scenarios/play/test_cells.py::test_any_ladder_*": 6,
    "tests/simulator/scenarios/play/test_cells_breaker.py::test_any_ladder_*": 6,
    "tests/simulator/drills/management/test_drill_command.py::test_every_sample_*": 6,
    "tests/simulator/drills/test_flips.py::*": 3,
    "tests/simulator/drills/runs/test_names.py::*": 3,
    "tests/simulator/drills/test_promises.py::test_every_cell_of_a_varied_*": 6,
    "tests/simulator/drills/test_recovery.py::test_every_cell_*": 5,
    "tests/simulator/drills/test_samples.py::test_all_24_*": 4,
    "tests/simulator/drills/test_supposed.py::test_with_layers_*": 5,
    "tests/simulator/endpoint/test_openai_client.py::*": 3,
    "tests/simulator/endpoint/test_catalogue.py::*": 2,
    "tests/fabric/composition/test_misbehaviour_http.py::test_it_is_stopped_*": 2,
    "tests/simulator/rules/runs/test_bugs.py::test_a_planted_bug_*": 5,
    "tests/simulator/rules/runs/test_bugs.py::test_the_rule_of_each_*": 3,
    "tests/simulator/world/test_suspects.py::test_runs_that_*": 6,
    "tests/simulator/world/test_teeth.py::test_the_bug_*": 3,
    "tests/simulator/drills/library/test_causes.py::test_a_run_is_captured_*": 6,
    "tests/simulator/scenarios/strikes/test_injection.py::*": 3,
    "tests/simulator/scenarios/strikes/test_needs.py::test_every_scenario_*": 6,
    "tests/simulator/scenarios/play/test_player.py::test_every_shipped_*": 4,
}
"""Patterns as in `NIGHTLY`: `full` has one test of so many that a pattern fits, always the same; `nightly` has all."""

CASES_MAX = 4
"""Of a test with more cases than this, `full` has this many, spread over its table; the core and the runtime keep all of theirs."""

PAGES = 5
"""Of so many pages that a test goes through, `full` looks at one."""


def is_nightly() -> bool:
    """Tells whether everything is run."""
    return os.environ.get(SET) == "nightly"


def many(whole: int) -> int:
    """Number of random examples: ``whole`` of them in `nightly`, else a third."""
    return whole if is_nightly() else whole // 3


def sample(whole: Iterable[T], each: int, name: str) -> list[T]:
    """One of ``each`` of many alike in `fast` and `full`, always the same; else all. ``name`` says which of them come first."""
    if os.environ.get(SET) not in ("fast", "full"):
        return list(whole)
    first = zlib.crc32(name.encode())
    return [one for n, one in enumerate(whole) if (n + first) % each == 0]


def is_collected(file: str) -> bool:
    """Tells whether the present set looks for tests in a file: to import it for nothing costs each process."""
    chosen = os.environ.get(SET)
    if chosen == "fast" and file.startswith(SLOW_FOLDERS):
        return False
    return chosen not in ("fast", "full") or f"{file}::*" not in NIGHTLY


def leave_out(items: Sequence[pytest.Item]) -> tuple[set[pytest.Item], list[str]]:
    """The tests that the present set does not have, and the names in the tables above that no test has."""
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    found = {pattern: _fitting(by_file, pattern) for pattern in (*NIGHTLY, *SAMPLED)}
    left = set() if is_nightly() else {item for pattern in NIGHTLY for item in found[pattern]}
    # The first pattern that fits a test samples it.
    judged = set(left)
    for pattern, each in SAMPLED.items():
        fitting = [item for item in found[pattern] if item not in judged]
        judged |= set(fitting)
        left |= set(fitting) - set(sample(fitting, each, pattern))
    if os.environ.get(SET) in ("fast", "full"):
        left |= _surplus_cases(
            [item for item in items if item not in judged and not item.nodeid.startswith(FAST_FOLDERS)]
        )
    if os.environ.get(SET) == "fast":
        left |= {item for item in items if _is_slow(item)}
        others = [item for item in items if item not in left and not item.nodeid.startswith(FAST_FOLDERS)]
        left |= set(others) - set(sample(others, FAST_EACH, "fast"))
    return left, [name for name, named in found.items() if not named]


def _surplus_cases(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The cases beyond `CASES_MAX` of each test; the first and the last case stay."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    surplus = set[pytest.Item]()
    for rows in cases.values():
        if len(rows) > CASES_MAX:
            kept = {round(n * (len(rows) - 1) / (CASES_MAX - 1)) for n in range(CASES_MAX)}
            surplus |= {item for n, item in enumerate(rows) if n not in kept}
    return surplus


def _is_slow(item: pytest.Item) -> bool:
    return item.nodeid.startswith(SLOW_FOLDERS) or any(mark.name in SERVERS for mark in item.iter_markers())


def _fitting(by_file: Mapping[str, Sequence[pytest.Item]], pattern: str) -> list[pytest.Item]:
    file = pattern.partition("::")[0]
    named = [file] if file in by_file else [one for one in by_file if fnmatchcase(one, file)]
    return [item for one in named for item in by_file[one] if _is_named(item, pattern)]


def _is_named(item: pytest.Item, pattern: str) -> bool:
    return fnmatchcase(item.nodeid.replace("[", "(").replace("]", ")"), pattern)
