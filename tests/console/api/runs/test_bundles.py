"""A run's bundle over the API: a ZIP file that verifies by itself, offline."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

from fabric.models import AuditLine
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL, ran

RUNS = "/api/v1/runs"


def test_it_verifies_by_itself_and_is_told(program, actor, small, tmp_path, settings):
    settings.FABRIC_CHECKPOINTS = tmp_path / "checkpoints"
    settings.FABRIC_CHECKPOINTS.mkdir()
    run = ran(actor, small)
    given = program.post(f"{RUNS}/{run.id}/export", {})
    assert (given.status_code, given.headers["Content-Type"]) == (200, "application/zip")
    zipfile.ZipFile(io.BytesIO(b"".join(given.streaming_content))).extractall(tmp_path)
    verify = tmp_path / f"run-{run.id}" / "verify.py"
    checked = subprocess.run([sys.executable, "-I", verify], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert list(AuditLine.objects.filter(kind="run_exported").values_list("subject", flat=True)) == [run.id]


def test_a_folder_that_went_away_is_a_problem_that_names_it(program, actor, small, tmp_path, settings):
    settings.FABRIC_CHECKPOINTS = tmp_path / "unmounted"
    told = program.post(f"{RUNS}/{ran(actor, small).id}/export", {})
    assert (told.status_code, told.headers["Content-Type"]) == (503, "application/problem+json")
    assert "unmounted/checkpoints-" in told.json()["detail"]


def test_another_workspaces_run_is_not_here(program, stranger):
    theirs = ran(stranger, fabric_publish(actor=stranger, source=SMALL).name)
    assert program.post(f"{RUNS}/{theirs.id}/export", {}).status_code == 404
