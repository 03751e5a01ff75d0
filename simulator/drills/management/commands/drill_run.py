"""`manage.py drill run [FABRIC]`: drills cells of a decision table in the production engine, and judges them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import CommandParser

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.management.base import OK, OTHER_END, FabricCommand, providers, read_text
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.tree import BYTES_MAX
from simulator.drills import fabrics as chosen
from simulator.drills.fabrics import DEFAULT_TABLE
from simulator.drills.management.live.options import Caps, add_here, here_given
from simulator.drills.management.numbers import number_given
from simulator.drills.services.drafts import changed_cells, expectation_changes
from simulator.scenarios.play.cells import drill_cells
from simulator.scenarios.play.verdicts import Cell
from simulator.scenarios.promises.digests import CELLS
from simulator.scenarios.promises.layers import unmet_said
from simulator.scenarios.reports.formats import Drilled, count_failed, json_line, junit, verdicts
from simulator.scenarios.reports.page import page

FILES = (".yaml", ".yml", ".json")
NOT_STALE = ("all", "samples", "failure", "tier", "changed", "recovers", "live", "here")
"""Options that do not go with --stale."""
SEEDS, DECISIONS = 2**32 - 1, 1_000
REPORTS: Mapping[str, Callable[..., str]] = {"junit": junit, "html": page}
"""Writer of each report, by option."""
Word = TypeVar("Word", FailureType, Tier)


class Command(FabricCommand):
    """Exit code 0: every cell passed; 1: one did not, or was not shown; 2: bad input; 130: Ctrl-C."""

    help = (
        "Drill cells of a fabric's decision table in simulated time: each failure, in each tier, against what the table promises. All 24 cells where none is "
        "named. Without FABRIC: the default table."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options for fabric, cells and output."""
        parser.add_argument(
            "fabric", nargs="?", metavar="FABRIC", help="a published fabric's name, or a YAML file with a draft"
        )
        parser.add_argument("--all", action="store_true", help="all 24 cells, which is the default")
        parser.add_argument("--samples", action="store_true", help="the default table and every sample fabric")
        parser.add_argument(
            "--failure", action="append", metavar="X", help=f"this row; repeatable: {', '.join(FailureType)}"
        )
        parser.add_argument("--tier", action="append", metavar="Y", help=f"this tier; repeatable: {', '.join(Tier)}")
        parser.add_argument(
            "--changed",
            action="store_true",
            help="of a file: only the cells whose verdict depends on something that it changes of the fabric published under its name; and how their chains differ",
        )
        parser.add_argument(
            "--stale",
            action="store_true",
            help="the stale cells of FABRIC, else of every fabric; these drills are kept",
        )
        parser.add_argument("--seed", default="1", metavar="N", help="of the drills (1): a seed does always the same")
        parser.add_argument(
            "--recovers",
            metavar="N",
            help="the failure is gone after N decisions (it stays): what was not ended by then has to complete",
        )
        parser.add_argument(
            "--live",
            action="store_true",
            help="on real workers, broker, database and clock, of an installation of its own that is gone afterwards; the failures come from the "
            "provider, and nothing is asked outside",
        )
        parser.add_argument(
            "--db",
            choices=("sqlite", "postgresql"),
            default="sqlite",
            help="with --live: what that installation has (sqlite)",
        )
        add_here(parser, what="FABRIC is a published one")
        parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report, for a pipeline")
        parser.add_argument("--html", type=Path, metavar="FILE", help="write a report to read and to print")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Drill the cells in turn, and print each result at once."""
        cells, seed = _cells(options), number_given("--seed", options["seed"], 0, SEEDS)
        if options["stale"]:
            _check_stale(options)
        specs = [] if options["stale"] else self._fabrics(options)
        if options["changed"]:
            cells = self._list_changed_cells(specs, cells, options)
        for option in REPORTS:
            writable(option, options[option])
        at, began = datetime.now(UTC), time.perf_counter()
        found = self._drill_stale(seed, options) if options["stale"] else self._drill_all(specs, cells, seed, options)
        seconds = time.perf_counter() - began
        for option, written in REPORTS.items():
            if options[option] is not None:
                options[option].write_text(written(found, seconds, at=at), encoding="utf-8")
        self.stdout.write(json_line(found, seconds) if options["json"] else _summarize(found, seconds))
        return OTHER_END if count_failed(found) else OK

    def _drill_all(
        self,
        specs: Sequence[FabricSpec],
        cells: Sequence[tuple[FailureType, Tier]],
        seed: int,
        options: dict[str, Any],
    ) -> list[Drilled]:
        found = []
        for spec in specs:
            one = Drilled("" if spec.name == DEFAULT_TABLE else spec.name, [])
            found.append(one)
            if told := unmet_said(spec):
                self.tell(f"{spec.name}: {told}")
            for cell in self._drill_cells(spec, cells, seed, options):
                one.cells.append(cell)
                self.tell(*_describe_cell(spec.name if len(specs) > 1 else "", cell))
        return found

    def _drill_stale(self, seed: int, options: dict[str, Any]) -> list[Drilled]:
        from simulator.drills.management.live.stale import drilled_stale
        from simulator.drills.tasks import wake

        found: dict[str, Drilled] = {}
        with closing(drilled_stale(options["fabric"] or "", seed=seed, wake=wake, say=self.tell)) as ended:
            for name, cell in ended:
                found.setdefault(name, Drilled(name, [])).cells.append(cell)
                self.tell(*_describe_cell(name, cell))
        return list(found.values())

    def _list_changed_cells(
        self, specs: Sequence[FabricSpec], cells: Sequence[tuple[FailureType, Tier]], options: dict[str, Any]
    ) -> list[tuple[FailureType, Tier]]:
        """Return the cells that a draft changes, after printing how their promises differ."""
        if not (options["fabric"] or "").endswith(FILES):
            message = "--changed compares a file with what is published under its name: give the file"
            raise Refused(message, code="invalid", field="changed")
        actor, (draft,) = owner_actor(), specs
        try:
            before = chosen.published_spec(actor, draft.name)
        except Refused as refused:
            if refused.code != "not_found":
                raise
            self.tell(f"{draft.name} is not published here: all cells are new")
            return list(cells)
        changed = set(changed_cells(actor, draft))
        for one in expectation_changes(before, draft):
            failure, tier = one.cell
            self.tell(f"{failure} x {tier}: {one.before or one.before_why} -> {one.after or one.after_why}")
        left = [cell for cell in cells if cell in changed]
        self.tell(f"{len(left)} of {len(cells)} cells depend on what {draft.name} changes")
        return left

    def _drill_cells(
        self, spec: FabricSpec, cells: Sequence[tuple[FailureType, Tier]], seed: int, options: dict[str, Any]
    ) -> Iterable[Cell]:
        recovers = (
            None if options["recovers"] is None else number_given("--recovers", options["recovers"], 1, DECISIONS)
        )
        if recovers is not None and options["live"]:
            raise Refused(
                "--recovers is for drills in simulated time: leave out --live", code="invalid", field="recovers"
            )
        if (caps := here_given(options)) is not None:
            return self._here(spec, cells, seed, caps, options)
        if not options["live"]:
            return drill_cells(spec, cells, seed=seed, recovers_after=recovers)
        from simulator.drills.live.installation import drilled_live  # It takes a second to load.

        self.tell(f"{spec.name}: starting an installation of its own on {options['db']}")
        return drilled_live(spec, cells, options["db"])

    def _here(
        self,
        spec: FabricSpec,
        cells: Sequence[tuple[FailureType, Tier]],
        seed: int,
        caps: Caps,
        options: dict[str, Any],
    ) -> Iterable[Cell]:
        if options["samples"] or options["fabric"] != spec.name:
            message = "--here drills a fabric that is published here: give its name, and neither a file nor --samples"
            raise Refused(message, code="invalid", field="fabric")
        from simulator.drills.management.live.drills import drilled_here
        from simulator.drills.tasks import wake

        return drilled_here(
            spec.name, cells, seed=seed, cap_s=caps.cap_s, cap_usd_micros=caps.cap_usd_micros, wake=wake, say=self.tell
        )

    def _fabrics(self, options: dict[str, Any]) -> list[FabricSpec]:
        name = options["fabric"]
        if options["samples"]:
            if name is not None:
                raise Refused("give a fabric or --samples, one of the two", code="invalid", field="fabric")
            return [chosen.default_table(), *chosen.samples()]
        if name is None:
            return [chosen.default_table()]
        if name.endswith(FILES):
            path = Path(name)
            text = read_text(path, most=BYTES_MAX, what="a fabric")
            return [chosen.draft(text, origin=path.name, providers=providers())]
        return [chosen.published_spec(owner_actor(), name)]


def _cells(options: dict[str, Any]) -> list[tuple[FailureType, Tier]]:
    """Return the requested cells, row by row. Raises Refused for an unknown name."""
    failures = read_words("--failure", options["failure"], FailureType)
    tiers = read_words("--tier", options["tier"], Tier)
    if options["all"] and (failures or tiers):
        raise Refused("--all is all 24 cells: leave out --failure and --tier, or --all", code="invalid", field="all")
    return [(row, tier) for row, tier in CELLS if row in (failures or FailureType) and tier in (tiers or Tier)]


def _check_stale(options: Mapping[str, Any]) -> None:
    """Refuse options that select something else than the stale cells."""
    for option in NOT_STALE:
        if options[option]:
            message = f"--stale selects the cells, of published fabrics, in simulated time: leave out --{option}"
            raise Refused(message, code="invalid", field="stale")
    if (options["fabric"] or "").endswith(FILES):
        message = "--stale is about published fabrics: give a fabric's name, or none for all fabrics"
        raise Refused(message, code="invalid", field="fabric")


def read_words(option: str, given: Sequence[str] | None, names: type[Word]) -> list[Word]:
    """Return the words of an option. Raises Refused for an unknown one, with the nearest known one."""
    found = []
    for one in given or ():
        if one not in set(names):
            close = get_close_matches(one, list(names), n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}? " if close else ""
            raise Refused(
                f"{option}: {one[:80]!r} is none; {hint}there are {', '.join(names)}", code="invalid", field=option[2:]
            )
        found.append(names(one))
    return found


def _describe_cell(fabric: str, cell: Cell) -> Iterator[str]:
    where = f"{fabric}: " if fabric else ""
    given = f"  (given {cell.equipped})" if cell.equipped else ""
    yield f"{where}{cell.failure} x {cell.tier}: {cell.verdict}, {cell.observed}{given}"
    if cell.verdict == "deviated":
        yield f"    expected: {cell.expected}"
    if cell.why:
        yield f"    {cell.why}"


def writable(option: str, path: Path | None) -> None:
    """Check before the drills that a report can be written. Raises Refused."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise Refused(
            f"--{option}: {path} is no file in a directory that there is; give one", code="invalid", field=option
        )


def _summarize(found: Sequence[Drilled], seconds: float) -> str:
    counts = verdicts(found)
    rest = "".join(f", {counts[one]} {one}" for one in ("deviated", "error", "unknown") if counts[one])
    return f"{counts['pass']} of {counts.total()} cells passed{rest}, in {seconds:.1f} s"
