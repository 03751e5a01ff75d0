"""The command line itself: its help, its version, names that there are not, old names, and a pipe that closes."""

import os
import subprocess
import sys

import pytest

from console.launch import groups, old_names
from console.launch.completion import SCRIPTS
from console.launch.main import main
from console.launch.processes.data_directory import ROOT
from fabric.program.name import CHECKOUT, SCRIPT, find_version, program
from tests.fabric.management.parsers import parsers, verbs_of

MANAGE = [sys.executable, str(ROOT / "manage.py")]


def test_help_has_six_groups_with_a_line_for_each_command(capsys):
    assert main(["manage.py"]) == main(["manage.py", "--help"]) == main(["manage.py", "help"]) == 0
    page = capsys.readouterr().out
    assert len(groups.GROUPS) == 6
    for name in ("up", "test", "version", *groups.NAMES):
        assert f"\n  {name:<14}" in page
    assert "squashmigrations" not in page


def test_the_table_names_each_command_that_people_call():
    ours = set(parsers()) | {"up", "test", "version", "help", "completion", "django"}
    assert set(groups.NAMES) == ours


def test_the_table_of_old_forms_has_the_verbs_of_the_parsers():
    assert {name: frozenset(verbs_of(parsers()[name])) for name in old_names.VERBS} == old_names.VERBS


def test_each_old_name_leads_to_a_verb_that_there_is():
    for new in old_names.RENAMED.values():
        assert new[0] in parsers()
        assert new[1:] == () or new[1] in verbs_of(parsers()[new[0]])


def test_help_of_exit_codes_is_a_table(capsys):
    assert main(["manage.py", "help", "exit-codes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines] == [0, 1, 2, 3, 130, 141]


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_is_the_products(capsys, word):
    assert main(["manage.py", word]) == 0
    assert capsys.readouterr().out == f"Fabric Flow {find_version()}\n"


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("run small --input x", "run start small --input x"),
        ("run cancel ID", "run cancel ID"),
        ("run --help", "run --help"),
        ("run", "run"),
        ("explain ID --json", "run explain ID --json"),
        ("decide ID approve", "review decide ID approve"),
        ("drill", "drill run"),
        ("drill --samples", "drill run --samples"),
        ("drill small", "drill run small"),
        ("drill list", "drill list"),
        ("drill_stop pull --reason x", "drill stop pull --reason x"),
        ("breakers", "breaker list"),
        ("breakers --json", "breaker list --json"),
        ("breakers --open agent:one --reason x", "breaker open agent:one --reason x"),
        ("breakers --reason x --reset=agent:one", "breaker reset agent:one --reason x"),
        ("budget", "budget list"),
        ("budget --scope x --usd 5", "budget set --scope x --usd 5"),
        ("budget --usd=5", "budget set --usd=5"),
        ("notifications retry ID", "notification retry ID"),
        ("verify_audit", "admin verify"),
        ("simulate --seeds 3", "dev simulate --seeds 3"),
    ],
)
def test_an_old_form_is_read_as_the_new_one(words, new):
    found, said = old_names.translate(words.split())
    assert " ".join(found) == new
    assert bool(said) == (words != new)
    if said:
        assert said.startswith(f"`{words.split()[0]}` is now `{program()} {new.split()[0]}")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MANAGE, *words], capture_output=True, text=True, check=False)


def test_an_old_verb_is_read_as_the_new_one():
    new, said = old_names.translate(["review", "reassign", "abc", "ana", "--json"])
    assert new == ("review", "assign", "abc", "--to", "ana", "--json")
    assert said.startswith(f"`review reassign` is now `{program()} review assign`")


def test_an_unknown_command_is_bad_input_and_gets_near_names():
    done = run("hlep")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"there is no command 'hlep'; did you mean help? `{CHECKOUT} help` lists them\n"


def test_a_wrong_option_and_a_missing_verb_are_bad_input():
    assert run("up", "--tree").returncode == 2
    assert run("run").returncode == 2
    assert run("review", "list", "--tree").returncode == 2


def test_help_of_a_command_leaves_out_the_options_of_django():
    done = run("help", "run", "start")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {CHECKOUT} run start ")
    assert not any(option in run("run", "--help").stdout for option in ("--settings", "--force-color", "--skip-checks"))


def test_commands_of_django_stand_behind_its_name():
    done = run("django", "check", "--list-tags")
    assert (done.returncode, done.stderr) == (0, "")
    bare = run("check", "--list-tags")
    assert (bare.returncode, bare.stdout) == (0, done.stdout)
    assert bare.stderr.startswith(f"`check` is now `{CHECKOUT} django check`;")


@pytest.mark.parametrize("words", [("help",), ("version",)])
def test_a_pipe_that_closes_ends_a_command_silently(words):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*MANAGE, *words], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_name_of_the_program_is_the_script_where_it_was_called_so(monkeypatch):
    assert program() == CHECKOUT
    monkeypatch.setattr(sys, "argv", ["/usr/bin/fabricflow", "run"])
    assert program() == SCRIPT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_of_each_shell_asks_this_program_for_words(capsys, shell):
    assert main(["manage.py", "completion", shell]) == 0
    script = capsys.readouterr().out
    assert " complete_words " in script
    assert "fabricflow" in script


def test_an_unknown_shell_is_bad_input(capsys):
    assert main(["manage.py", "completion", "tcsh"]) == main(["manage.py", "completion"]) == 2
    assert "completion bash|zsh|fish`" in capsys.readouterr().err


def test_names_of_commands_are_completed_without_an_environment(capsys):
    assert main(["manage.py", "complete_words", "manage.py", "re"]) == 0
    assert capsys.readouterr().out.split() == ["rekey", "restore", "review", "revoke_access"]


def test_bash_completes_with_the_script(tmp_path):
    """The shell itself, with a program that prints the words it was asked with."""
    program = tmp_path / "fabricflow"
    program.write_text('#!/bin/sh\nprintf \'%s\\n\' "$#" "$4"\n')
    program.chmod(0o755)
    script = (
        f"{SCRIPTS['bash']}\nCOMP_WORDS=({program} run start '')\nCOMP_CWORD=3; _fabricflow; echo ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "5 start\n"
