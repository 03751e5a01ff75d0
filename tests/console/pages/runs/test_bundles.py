"""A run's bundle from its page: a ZIP file that verifies by itself, offline."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

from fabric.models import AuditLine
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL, ran


def test_the_page_offers_it_and_it_verifies_by_itself(browser, actor, small, tmp_path, settings):
    settings.FABRIC_CHECKPOINTS = tmp_path / "checkpoints"
    settings.FABRIC_CHECKPOINTS.mkdir()
    run = ran(actor, small)
    assert f'action="/runs/{run.id}/export"' in browser.get(f"/runs/{run.id}").content.decode()
    given = browser.post(f"/runs/{run.id}/export")
    assert given.status_code == 200
    assert given.headers["Content-Type"] == "application/zip"
    assert f'filename="run-{run.id}.zip"' in given.headers["Content-Disposition"]
    zipfile.ZipFile(io.BytesIO(b"".join(given.streaming_content))).extractall(tmp_path)
    folder = tmp_path / f"run-{run.id}"
    checked = subprocess.run([sys.executable, "-I", folder / "verify.py"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (folder / "events.ndjson").write_bytes((folder / "events.ndjson").read_bytes().replace(b"owner", b"0wner", 1))
    broken = subprocess.run([sys.executable, "-I", folder / "verify.py"], capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert list(AuditLine.objects.filter(kind="run_exported").values_list("subject", flat=True)) == [run.id]


def test_a_folder_of_checkpoints_that_went_away_is_named_and_not_made(browser, actor, small, tmp_path, settings):
    settings.FABRIC_CHECKPOINTS = tmp_path / "unmounted"
    refused = browser.post(f"/runs/{ran(actor, small).id}/export")
    assert refused.status_code == 503
    assert b"unmounted/checkpoints-" in refused.content
    assert b"see that it is there and can be written" in refused.content
    assert not settings.FABRIC_CHECKPOINTS.exists()


def test_another_workspaces_run_is_not_here(browser, stranger):
    theirs = ran(stranger, fabric_publish(actor=stranger, source=SMALL).name)
    assert browser.post(f"/runs/{theirs.id}/export").status_code == 404
    assert browser.get(f"/runs/{theirs.id}/export").status_code == 405
