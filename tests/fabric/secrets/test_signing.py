"""The key that signs checkpoints: made once, kept to oneself, and a sentence where it cannot be had."""

import os
import threading

import pytest

from fabric.secrets.key_ring import KeyUnusable, replace
from fabric.secrets.signing import KEY_NAME, read_signer, verify_signature


def test_it_is_made_once_for_its_owner_alone(tmp_path):
    first = read_signer(tmp_path)
    assert read_signer(tmp_path).public == first.public
    assert (tmp_path / KEY_NAME).stat().st_mode & 0o777 == 0o600
    assert verify_signature(first.public, first.sign(b"said"), b"said")
    assert not verify_signature(first.public, first.sign(b"said"), b"other")
    assert not verify_signature("no key", first.sign(b"said"), b"said")


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_what_root_makes_is_the_directory_s_owner_s(tmp_path):
    os.chown(tmp_path, 12_345, 23_456)
    read_signer(tmp_path)
    replace(tmp_path / "key.ring", "x")
    for name in (KEY_NAME, "key.ring"):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (12_345, 23_456, 0o600), name


def test_many_who_start_at_once_get_one(tmp_path):
    found = []
    threads = [threading.Thread(target=lambda: found.append(read_signer(tmp_path).public)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (16, 1)
    assert [path.name for path in tmp_path.iterdir()] == [KEY_NAME]


def test_a_given_one_is_written_nowhere(tmp_path):
    assert read_signer(tmp_path, "17" * 32).public == read_signer(tmp_path, "17" * 32).public
    assert list(tmp_path.iterdir()) == []
    assert "17" * 4 not in repr(read_signer(tmp_path, "17" * 32))


@pytest.mark.parametrize("text", ["", "short", "zz" * 32, "00" * 31])
def test_a_damaged_one_is_not_replaced(tmp_path, text):
    (tmp_path / KEY_NAME).write_text(text)
    with pytest.raises(KeyUnusable, match=r"audit\.key is damaged: put it back from a copy"):
        read_signer(tmp_path)
    assert (tmp_path / KEY_NAME).read_text() == text


def test_one_that_cannot_be_read(tmp_path):
    (tmp_path / KEY_NAME).mkdir()
    with pytest.raises(KeyUnusable, match="cannot be used"):
        read_signer(tmp_path)
