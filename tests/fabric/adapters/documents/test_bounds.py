"""No file takes the process that reads it with it: whatever comes, there is one sentence, in time, within the memory of one child."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import pytest

from fabric.adapters.documents import attachments as reading
from fabric.adapters.documents import child
from fabric.adapters.documents.attachments import ReadersBusy, read_file
from fabric.adapters.documents.outcome import UnreadableFile
from tests.fabric.adapters.documents import files

HOSTILE = {
    "two-gigabytes.pdf": (files.two_gigabytes, "unpacks to more than is read"),
    "recursive-pages.pdf": (files.recursive_pages, "damaged|without text"),
    "deep-pages.pdf": (lambda: files.deep_pages(20_000), "unpacks to more|damaged|without text"),
    "deep-objects.pdf": (lambda: files.deep_objects(200_000), "damaged|nested too deeply|without text"),
    "drawing-itself.pdf": (files.drawing_itself, "unpacks to more|damaged|without text|nested"),
    "ten-thousand.pdf": (lambda: files.many_pages(10_000), "has 10,000 pages; at most 1,000"),
    "bomb.docx": (lambda: files.blown_up_part(files.word("x"), "word/document.xml", 1_000), "unpacks to more"),
    "bomb.xlsx": (
        lambda: files.blown_up_part(files.workbook({"A": [[1]]}), "xl/worksheets/sheet1.xml", 1_000),
        "unpacks to more",
    ),
    "blanks.docx": (
        lambda: files.blown_up_part(files.word("x"), "word/document.xml", 90),
        "holds XML that no Office program",
    ),
    "liar.docx": (
        lambda: files.understated(files.blown_up_part(files.word("x"), "word/document.xml", 300), 300 * files.MEGABYTE),
        "damaged",
    ),
    "laughs.docx": (
        lambda: files.replaced(
            files.word("x"), "word/document.xml", f"{files.LAUGHS}<w:document {files.WORD_NS}>&j;</w:document>"
        ),
        "XML document type",
    ),
    "laughs.xlsx": (
        lambda: files.replaced(
            files.workbook({"A": [[1]]}),
            "xl/worksheets/sheet1.xml",
            f"{files.LAUGHS}<worksheet {files.SHEET_NS}>&j;</worksheet>",
        ),
        "XML document type",
    ),
    "laughs-16.xlsx": (
        lambda: files.replaced(
            files.workbook({"A": [[1]]}), "xl/workbook.xml", f"{files.LAUGHS}<workbook>&j;</workbook>".encode("utf-16")
        ),
        "XML document type",
    ),
    "million-rows.xlsx": (lambda: files.many_rows(1_000_000), "has more than 400,000 cells"),
    "million-texts.xlsx": (lambda: files.many_strings(1_400_000), "has more than 400,000 cells"),
    "heavy.docx": (lambda: files.word_with("<w:p><w:r><w:t>a word</w:t></w:r></w:p>" * 1_500_000), "needs more memory"),
    "deep.docx": (lambda: files.word_with("<w:sdt><w:sdtContent>" * 50_000), "damaged|nested"),
}

DRIVER = """
import json, resource, sys, time
from pathlib import Path
from fabric.adapters.documents.attachments import read_all
for path in map(Path, sys.argv[1:]):
    begun = time.monotonic()
    documents, problems = read_all([(path.name, path.read_bytes())])
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    print(json.dumps([path.name, [str(one) for one in problems], time.monotonic() - begun, kilobytes, own]))
"""


def test_every_hostile_file_is_one_sentence_in_time_and_within_the_childs_memory(tmp_path):
    paths = []
    for name, (make, _) in HOSTILE.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(make())
        assert paths[-1].stat().st_size <= 10_000_000, name
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *paths], capture_output=True, text=True, cwd=Path.cwd(), timeout=400, check=False
    )
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one[0] for one in told] == list(HOSTILE), ran.stderr  # The parent read them all.
    for name, problems, seconds, kilobytes, own in told:
        print(f"{name:22} {seconds:5.1f} s {kilobytes / 1024:4.0f} MB, parent {own / 1024:3.0f} MB {problems}")
    for name, problems, seconds, kilobytes, own in told:
        assert len(problems) == 1, name
        assert re.search(HOSTILE[name][1], problems[0]), problems
        assert problems[0].startswith(f"{name} ")
        assert seconds < reading.FILE_S + 5
        assert kilobytes * 1024 < child.MEMORY_BYTES
        assert own * 1024 < 150 * files.MEGABYTE


# -- a child that hangs, dies, or is killed ------------------------------------------------------------------------------

BUSY = cache(lambda: files.busy_page(3_000_000))
"""Made when it is first needed: every process of a run collects every test."""


def read(seconds=60.0):
    """Return what is said of a file that is not read."""
    with pytest.raises(UnreadableFile) as caught:
        read_file("slow.pdf", BUSY(), time.monotonic() + seconds)
    return caught.value


def children():
    """Processes that this one started and that read a file now."""
    found = []
    for pid in Path("/proc").iterdir():
        try:
            about = (pid / "stat").read_text().rpartition(")")[2].split()
            if int(about[1]) == os.getpid() and reading.MODULE.encode() in (pid / "cmdline").read_bytes():
                found.append(int(pid.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def begun(count):
    """The ids of so many children, once they run."""
    until = time.monotonic() + 20
    while len(found := children()) < count:
        assert time.monotonic() < until, "no child began"
        threading.Event().wait(0.02)
    return found


def reader(seconds=60.0):
    """A thread that reads a file, and the list that gets its refusal in the end."""
    said = []
    BUSY()
    thread = threading.Thread(target=lambda: said.append(read(seconds)))
    thread.start()
    return thread, said


def test_a_reader_that_hangs_is_ended_at_its_deadline():
    thread, said = reader(seconds=3.0)
    os.kill(begun(1)[0], signal.SIGSTOP)
    thread.join(30)
    assert "takes too long to be read" in str(said[0])
    assert children() == []


@pytest.mark.parametrize(
    "end",
    [
        lambda pid: os.kill(pid, signal.SIGKILL),
        lambda pid: os.kill(pid, signal.SIGSEGV),
        lambda pid: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
        lambda pid: resource.prlimit(pid, resource.RLIMIT_AS, (100_000_000, 100_000_000)),
    ],
    ids=["killed", "crashed", "out of time", "out of memory"],
)
def test_a_reader_that_dies_is_one_sentence_and_the_next_file_is_read(end):
    thread, said = reader()
    end(begun(1)[0])
    thread.join(30)
    assert not thread.is_alive()
    (told,) = map(str, said)
    assert "ended the program that reads it" in told or "needs more memory" in told
    assert read_file("next.pdf", files.pdf("Read me"), time.monotonic() + 30).text == "[page 1]\nRead me\n"


def test_only_so_many_read_at_once_and_the_next_one_is_told_to_come_back():
    readers = [reader() for _ in range(reading.AT_ONCE)]
    running = begun(reading.AT_ONCE)
    told = read(seconds=0.2)
    assert isinstance(told, ReadersBusy)
    assert "attach it again in a few seconds" in str(told)
    assert sorted(children()) == sorted(running)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    for thread, _ in readers:
        thread.join(30)
    assert read_file("next.pdf", files.pdf("Read me"), time.monotonic() + 30).kind == "PDF"


def bounds_of(pid):
    """Return what the kernel lets a process have: memory, seconds of processor time, size of a file."""
    memory, seconds = resource.prlimit(pid, resource.RLIMIT_AS)[0], resource.prlimit(pid, resource.RLIMIT_CPU)[1]
    return memory, seconds, resource.prlimit(pid, resource.RLIMIT_FSIZE)


def test_the_child_is_bounded_by_the_kernel():
    thread, _ = reader()
    (pid,) = begun(1)
    until = time.monotonic() + 20
    wanted = (child.MEMORY_BYTES, child.CPU_S, (0, 0))
    while bounds_of(pid) != wanted:  # The child sets one after the other.
        assert time.monotonic() < until, bounds_of(pid)
        threading.Event().wait(0.02)
    os.kill(pid, signal.SIGKILL)
    thread.join(30)
