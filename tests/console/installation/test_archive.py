"""The file of a backup: whole or refused with a sentence, and for its owner alone."""

import io
import json
import tarfile
from dataclasses import replace

import pytest

from console.installation import backups
from console.launch.processes.errors import StartRefused

MADE = backups.Manifest("0.1", "2026-11-28T00:00:00+00:00", "sqlite", "3.40", ("fabric.0001_initial",), ())


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "a").write_bytes(b"tables" * 1_000)
    (tmp_path / "b").write_bytes(b"k" * 64)
    return {backups.DATABASE: tmp_path / "a", "keys/secret.key": tmp_path / "b"}


@pytest.fixture
def manifest(sources):
    return replace(MADE, parts=tuple(backups.measure(path, name) for name, path in sources.items()))


def taken_out(file, folder):
    folder.mkdir()
    with backups.open_backup(file) as (tar, manifest):
        return manifest, backups.extract(tar, manifest, folder, file)


def test_what_goes_in_comes_out_and_only_its_owner_may_read_it(tmp_path, manifest, sources):
    file = tmp_path / "one.backup"
    backups.write(file, manifest, sources)
    found, parts = taken_out(file, tmp_path / "out")
    assert found == manifest
    assert found.keys == ("secret.key",)
    assert {name: path.read_bytes() for name, path in parts.items()} == {
        name: path.read_bytes() for name, path in sources.items()
    }
    assert {path.stat().st_mode & 0o777 for path in [file, *parts.values()]} == {0o600}


def test_nothing_is_overwritten_and_what_failed_leaves_nothing(tmp_path, manifest, sources):
    file = tmp_path / "one.backup"
    file.write_text("kept")
    with pytest.raises(StartRefused, match="is there already"):
        backups.write(file, manifest, sources)
    assert file.read_text() == "kept"
    sources["keys/secret.key"].unlink()
    with pytest.raises(FileNotFoundError):
        backups.write(tmp_path / "two.backup", manifest, sources)
    assert not (tmp_path / "two.backup").exists()


def test_one_byte_that_changed_is_found(tmp_path, manifest, sources):
    file = tmp_path / "one.backup"
    backups.write(file, manifest, sources)
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"tablestables") + 600] ^= 1
    file.write_bytes(raw)
    with pytest.raises(StartRefused, match="database in .* is damaged"):
        taken_out(file, tmp_path / "out")


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6])
def test_one_that_was_cut_off_is_refused(tmp_path, manifest, sources, share):
    file = tmp_path / "one.backup"
    backups.write(file, manifest, sources)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StartRefused, match="no backup|cut off|damaged|lacks"):
        taken_out(file, tmp_path / "out")


def tarred(file, members):
    with tarfile.open(file, "w") as tar:
        for header, content in members:
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))


def told(**changed):
    said = {
        "format": 1,
        "version": "0",
        "made_at": "t",
        "engine": "sqlite",
        "server": "3",
        "migrations": [],
        "parts": [],
    }
    return json.dumps(said | changed).encode()


def link(name):
    header = tarfile.TarInfo(name)
    header.type, header.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return header


FOREIGN = {"name": "../../x.key", "bytes": 1, "sha256": "0"}
LINKED = {"name": "database", "bytes": 0, "sha256": "0"}
BAD = {
    "no manifest": ([(tarfile.TarInfo("database"), b"x")], "does not begin with"),
    "a manifest that is none": ([(tarfile.TarInfo("manifest.json"), b"[]")], "damaged manifest"),
    "another format": ([(tarfile.TarInfo("manifest.json"), told(format=2))], "this version reads 1"),
    "a part elsewhere": (
        [(tarfile.TarInfo("manifest.json"), told(parts=[FOREIGN])), (tarfile.TarInfo("../../x.key"), b"x")],
        "does not know",
    ),
    "a link": ([(tarfile.TarInfo("manifest.json"), told(parts=[LINKED])), (link("database"), b"")], "lacks database"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_foreign_file_is_refused(tmp_path, what):
    members, words = BAD[what]
    file = tmp_path / "one.backup"
    tarred(file, members)
    with pytest.raises(StartRefused, match=words):
        taken_out(file, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
