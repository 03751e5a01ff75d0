"""`manage.py scenario`: lists, checks, plays, imports and exports failure scenarios of the library."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandParser

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.management.base import OK, OTHER_END, FabricCommand, providers, read_text
from fabric.selectors.whole_ids import whole_run_id
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.tree import BYTES_MAX as FABRIC_BYTES_MAX
from simulator.drills import fabrics as chosen
from simulator.drills.library.selectors import ScenarioView, scenario_get, scenarios_list, shipped_views
from simulator.drills.library.services import importable, scenario_import
from simulator.drills.management.commands.drill_run import FILES, SEEDS, read_words, writable
from simulator.drills.management.live.options import Caps, add_here, here_given
from simulator.drills.management.numbers import number_given
from simulator.faults import catalogue
from simulator.scenarios.play.player import play
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.scenario import Scalar, Scenario, list_written, parse_overrides
from simulator.scenarios.spec.words import INFRASTRUCTURE, describe_reach, disturbances_words
from simulator.texts.toml import BYTES_MAX

if TYPE_CHECKING:
    from simulator.drills.reports.scenarios import Play

SCENARIO_FILES = (".toml", ".json")


class Command(FabricCommand):
    """Exit code 0: every tier passed; 1: one did not, or was not shown; 2: bad input; 130: Ctrl-C."""

    help = "List, show, check, play, import, export and capture failure scenarios."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions with their options."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
        listing = actions.add_parser("list", help="the library: the workspace's own scenarios and the shipped ones")
        listing.add_argument("--json", action="store_true", help="one line of JSON")
        showing = actions.add_parser("show", help="what a scenario disturbs, in words, and its source")
        showing.add_argument("name", metavar="NAME")
        checking = actions.add_parser("check", help="read a file, and say everything that is wrong with it")
        checking.add_argument("file", type=Path, metavar="FILE", help="TOML, or an experiment of chaostoolkit in JSON")
        _add_run_arguments(
            actions.add_parser("run", help="play a scenario in a fabric, in simulated time or live, and judge it")
        )
        importing = actions.add_parser("import", help="keep the scenario in a file")
        importing.add_argument("file", type=Path, metavar="FILE", help="TOML, or an experiment of chaostoolkit in JSON")
        importing.add_argument("--name", default="", help="in place of the one that it says")
        exporting = actions.add_parser("export", help="write a scenario")
        exporting.add_argument("name", metavar="NAME")
        exporting.add_argument("--chaostoolkit", action="store_true", help="as an experiment of chaostoolkit, in JSON")
        exporting.add_argument("--output", type=Path, metavar="FILE", help="where to (standard output)")

        capturing = actions.add_parser("capture", help="keep the failures of a run as a scenario")
        capturing.add_argument("run", metavar="RUN", help="its id, or a part that begins or ends it")
        capturing.add_argument("--name", default="", help="of the scenario (made of the run's)")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the action."""
        return ACTIONS[options["action"]](self, options)

    def do_list(self, options: dict[str, Any]) -> int:
        """Print a line for each scenario."""
        found = scenarios_list(owner_actor())
        if options["json"]:
            self.put({"scenarios": [_build_row(one) for one in found]})
            return OK
        for one in found:
            row = _build_row(one)
            tiers = "all tiers" if len(row["tiers"]) == len(Tier) else ", ".join(row["tiers"]) or "cannot be read"
            self.stdout.write(f"{one.name:32} {row['enters']:24} {tiers:24} {one.origin:9} {one.title}")
        return OK

    def do_show(self, options: dict[str, Any]) -> int:
        """Print the scenario in words, and its source."""
        seen = _find_scenario(options["name"])
        one = seen.readable()
        self.stdout.write(f"{one.title} ({seen.name}, {seen.origin})\n{one.description}\n")
        self.stdout.write(
            f"Failure type: {one.failure or INFRASTRUCTURE}. Tiers: {', '.join(one.tiers)}. Seed: {one.seed}."
        )
        self.stdout.write("Disturbed:")
        for words in disturbances_words(one):
            self.stdout.write(f"  {words}")
        for heading, probes in (
            ("Expected of the disturbed run:", one.expect),
            (f"Steady state: {one.steady_state.title}", one.steady_state.probes),
        ):
            self.stdout.write(heading if probes else f"{heading} no probe")
            for each in list_written(probes):
                self.stdout.write(f"  {each['probe']}: {json.dumps(each['tolerance'], ensure_ascii=False)}")
        self.stdout.write("Touches:")
        for line in describe_reach(one):
            self.stdout.write(f"  {line}")
        self.stdout.write(f"\n{seen.source.rstrip()}")
        return OK

    def do_check(self, options: dict[str, Any]) -> int:
        """Check that it can be read."""
        one, left_out = _file(options["file"])
        self.tell(*left_out)
        what = f"{len(one.disturbance)} disturbance{'s' if len(one.disturbance) != 1 else ''}"
        self.stdout.write(f"{options['file'].name}: {one.name}, {what}, failure type {one.failure or INFRASTRUCTURE}")
        return OK

    def do_run(self, options: dict[str, Any]) -> int:
        """Play it tier by tier, and print each result at once."""
        caps = _live(options)
        one, spec = _scenario(options["scenario"]), _fabric(options["fabric"])
        tiers = _tiers(one, options["tier"])
        seed = None if options["seed"] is None else number_given("--seed", options["seed"], 0, SEEDS)
        for option in ("junit", "journal"):
            writable(option, options[option])
        try:
            given = parse_overrides(one, options["set"])
            if options["dry"]:
                return self._dry(spec, one, tiers, seed, given, options)
            virtual = _virtual(spec, one, tiers, seed, given)
            lived = None if caps is None else _play_live(spec, options["scenario"], tiers, seed, given, caps, self.tell)
            return self._report_plays(spec, one, lived or virtual, options)
        except catalogue.FaultRefused as error:
            told = tuple(map(str, error.problems))
            raise Refused(told[0], code="invalid", field="set", problems=told) from None

    def _report_plays(self, spec: FabricSpec, one: Scenario, told: Iterable[Play], options: dict[str, Any]) -> int:
        from simulator.drills.reports.scenarios import Plays, plays_json, plays_junit

        began, found = time.perf_counter(), []
        for each in told:
            found.append(each)
            self.tell(*_describe_play(one.name, each))
        plays = Plays(one.name, spec.name, found, time.perf_counter() - began)
        if options["junit"] is not None:
            options["junit"].write_text(plays_junit(plays), encoding="utf-8")
        if options["journal"] is not None:
            self._journals(found, options["journal"])
        if options["json"]:
            self.put(plays_json(plays))
        else:
            self.stdout.write(f"{plays.passed_count} of {len(found)} tiers passed, in {plays.seconds:.1f} s")
        return OK if plays.passed_count == len(found) else OTHER_END

    def _journals(self, found: Sequence[Play], path: Path) -> None:
        """Write the record of each tier. A live one that ended before its steady state was probed has none."""
        for each in found:
            to = path if len(found) == 1 else path.with_stem(f"{path.stem}-{each.tier}")
            try:
                to.write_text(each.journal(), encoding="utf-8")
            except Refused as refusal:
                self.tell(f"{each.tier}: no journal was written: {refusal.message}")

    def _dry(self, spec: FabricSpec, one: Scenario, tiers: list[Tier], seed: int | None, given: Any, options: Any) -> int:  # fmt: skip
        from simulator.drills.reports.scenarios import preview_json
        from simulator.scenarios.play.previews import preview

        found = [preview(spec, one, tier, seed=seed, overrides=given) for tier in tiers]
        if options["json"]:
            self.put({"scenario": one.name, "fabric": spec.name, "tiers": [preview_json(each) for each in found]})
            return OK
        for line in describe_reach(one):
            self.stdout.write(line)
        for each in found:
            gives = f", given {each.equipped}" if each.equipped else ""
            self.stdout.write(f"{each.tier}: {spec.name} ends {each.state} undisturbed{gives}")
            for struck in each.struck:
                self.stdout.write(f"  {struck.words}")
                for met in struck.calls:
                    self.stdout.write(f"    {met.who}, {met.step}, at {met.at_s:.1f} s")
                if struck.watched and not struck.count:
                    self.stdout.write("    no call of the undisturbed run")
        return OK

    def do_import(self, options: dict[str, Any]) -> int:
        """Import a scenario from a file."""
        path = options["file"]
        text = read_text(path, most=BYTES_MAX, what="a scenario")
        found = scenario_import(actor=owner_actor(), text=text, name=options["name"], origin=path.name)
        self.tell(*found.left_out)
        self.stdout.write(f"{found.view.name} is in the library")
        return OK

    def do_export(self, options: dict[str, Any]) -> int:
        """Write the scenario to a file."""
        seen, to = _find_scenario(options["name"]), options["output"]
        writable("output", to)
        text = seen.source
        if options["chaostoolkit"]:
            text = json.dumps(build_experiment(seen.readable()), ensure_ascii=False, indent=2) + "\n"
        if to is None:
            self.stdout.write(text, ending="")
        else:
            to.write_text(text, encoding="utf-8")
        return OK

    def do_capture(self, options: dict[str, Any]) -> int:
        """Capture the failures of a run as a scenario."""
        from simulator.drills.library.captures import scenario_capture

        actor = owner_actor()
        found = scenario_capture(actor=actor, run_id=whole_run_id(actor, options["run"]), name=options["name"])
        self.tell(*found.left_out)
        self.stdout.write(f"{found.view.name} is in the library")
        return OK


ACTIONS: Mapping[str, Callable[[Command, dict[str, Any]], int]] = {
    "list": Command.do_list,
    "show": Command.do_show,
    "check": Command.do_check,
    "run": Command.do_run,
    "import": Command.do_import,
    "export": Command.do_export,
    "capture": Command.do_capture,
}


def _add_run_arguments(parser: CommandParser) -> None:
    parser.add_argument("scenario", metavar="NAME|FILE", help="a scenario of the library, or a file: TOML or JSON")
    parser.add_argument(
        "fabric",
        nargs="?",
        metavar="FABRIC",
        help="a published fabric, or a YAML file with a draft (the default table)",
    )
    parser.add_argument("--tier", action="append", metavar="Y", help="this tier; repeatable (all that it is for)")
    parser.add_argument("--set", action="append", default=[], metavar="K=V", help="a parameter of it; repeatable")
    parser.add_argument("--seed", metavar="N", help="of the runs (the scenario's): a seed does always the same")
    parser.add_argument(
        "--dry", action="store_true", help="say which calls would be affected; only the undisturbed run is driven"
    )
    parser.add_argument(
        "--live", action="store_true", help="with --here: on real workers, broker, database and clock, in real time"
    )
    add_here(parser, what="NAME is one of the library, and FABRIC a published one")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report, for a pipeline")
    parser.add_argument(
        "--journal", type=Path, metavar="FILE", help="write its record as chaostoolkit does; of several tiers FILE-TIER"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")


def _virtual(
    spec: FabricSpec, one: Scenario, tiers: Sequence[Tier], seed: int | None, given: Mapping[str, Scalar]
) -> Iterator[Play]:
    """Yield each tier, played in simulated time."""
    from simulator.drills.reports.scenarios import play_virtual  # It loads the engine and its world.

    for tier in tiers:
        yield play_virtual(play(spec, one, tier, seed=seed, overrides=given))


def _play_live(
    spec: FabricSpec,
    name: str,
    tiers: Sequence[Tier],
    seed: int | None,
    given: Mapping[str, Scalar],
    caps: Caps,
    say: Callable[[str], None],
) -> Iterator[Play]:
    """Yield each tier, played on this installation."""
    from simulator.drills.management.live.drills import played_here
    from simulator.drills.tasks import wake

    return played_here(
        spec.name, name, tiers, parameters=given, seed=seed, cap_s=caps.cap_s, cap_usd_micros=caps.cap_usd_micros, wake=wake, say=say,
    )  # fmt: skip


def _live(options: dict[str, Any]) -> Caps | None:
    """Return the caps for playing live on this installation; None for simulated time. Raises Refused invalid."""
    caps = here_given(options)
    if caps is None:
        if options["live"]:
            raise Refused(
                "--live plays a scenario on this installation: give --here as well", code="invalid", field="live"
            )
        return None
    if options["dry"]:
        raise Refused("--dry strikes nothing: leave out --live and --here, or --dry", code="invalid", field="dry")
    if options["scenario"].endswith(SCENARIO_FILES) or not options["fabric"] or options["fabric"].endswith(FILES):
        message = "--here plays a scenario of the library in a fabric that is published here: give the names of both, and no file"
        raise Refused(message, code="invalid", field="fabric")
    return caps


def _build_row(one: ScenarioView) -> dict[str, Any]:
    known = one.scenario
    return {
        "name": one.name,
        "title": one.title,
        "origin": one.origin,
        "enters": str(known.failure or INFRASTRUCTURE) if known else "",
        "faults": [each.fault for each in known.disturbance] if known else [],
        "tiers": list(known.tiers) if known else [],
        "seed": known.seed if known else None,
        "problems": list(one.problems),
    }


def _find_scenario(name: str) -> ScenarioView:
    # A shipped one needs no database.
    return shipped_views().get(name) or scenario_get(owner_actor(), name)


def _file(path: Path) -> tuple[Scenario, tuple[str, ...]]:
    text = read_text(path, most=BYTES_MAX, what="a scenario")
    one, _, left_out = importable(text, path.name)
    return one, left_out


def _scenario(name: str) -> Scenario:
    return _file(Path(name))[0] if name.endswith(SCENARIO_FILES) else _find_scenario(name).readable()


def _fabric(name: str | None) -> FabricSpec:
    if name is None:
        return chosen.default_table()
    if name.endswith(FILES):
        path = Path(name)
        text = read_text(path, most=FABRIC_BYTES_MAX, what="a fabric")
        return chosen.draft(text, origin=path.name, providers=providers())
    return chosen.published_spec(owner_actor(), name)


def _tiers(one: Scenario, given: list[str] | None) -> list[Tier]:
    wanted = read_words("--tier", given, Tier)
    for tier in wanted:
        if tier not in one.tiers:
            message = f"--tier: {one.name} is not for {tier}; it is for {', '.join(one.tiers)}"
            raise Refused(message, code="invalid", field="tier")
    return [tier for tier in one.tiers if tier in (wanted or one.tiers)]


def _describe_play(name: str, one: Play) -> Iterator[str]:
    given = f"  (given {one.equipped})" if one.equipped else ""
    yield f"{name} x {one.tier}: {one.verdict}, {one.observed}{given}"
    if one.verdict == "deviated":
        yield f"    expected: {one.expected}"
    if one.why:
        yield f"    {one.why}"
