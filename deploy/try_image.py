"""Build by the Dockerfile in a bare Debian, without a container builder, and use the result.

    python3 deploy/try_image.py FOLDER [--suite trixie] [--bind FOLDER ...]     # as root, with debootstrap; a new folder, of 750 MB

Both stages are done in one root, with the instructions that the Dockerfile has (FROM, WORKDIR, RUN, COPY, ENV, USER). Then, as its user and over a root that
no user can write: `serve migrate`, `serve web` asked by `serve probe /readyz`, a run, `doctor`, a backup. By hand; no part of `manage.py test`.
"""  # noqa: INP001

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LENT = (
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/pip.conf",
    "/etc/xdg/pip/pip.conf",
    "/etc/xdg/pip/constraints.txt",
    "/etc/ssl/certs/ca-certificates.crt",
)
PACKAGES = "python3,python3-venv,ca-certificates"
WORK = """
set -eu
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=0700,uid=10001,gid=10001 data "$1/data"
mount -t tmpfs -o mode=1777 tmp "$1/tmp"
mount -o remount,ro,bind "$1" "$1"
exec chroot --userspec=10001:10001 "$1" /usr/bin/env -i $2 /bin/sh -euc '
    cd /data
    ! touch /usr/x 2>/dev/null
    serve migrate
    serve bootstrap >/dev/null
    serve web & web=$!
    n=0; until serve probe /readyz 2>/dev/null; do n=$((n + 1)); [ $n -lt 60 ]; sleep 1; done
    serve run checked-answer --input "How long is the bridge?"
    serve backup /data/one.backup --with-keys
    serve doctor --only database --only migrations --only modes --only secrets
    kill $web; wait $web || true
'
"""
"""In a mount namespace of its own: $1 the root, $2 the image's environment."""


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's, each with its words on one line."""
    text = re.sub(r"\\\n", " ", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def copy(words: str, root: Path, folder: str) -> None:
    """Do a COPY of the checkout; one of another stage is there already."""
    if "--from=" in words:
        return
    *options, source, target = words.split()
    place = root / (target if target.startswith("/") else f"{folder}/{target}").strip("/")
    if source == ".":
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if not name.startswith(("tests/", ".ci/")):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, place / name)
        return
    place = place / source if target.endswith("/") else place
    shutil.copyfile(ROOT / source, place)
    place.chmod(next((int(one.partition("=")[2], 8) for one in options if one.startswith("--chmod=")), 0o644))


def build(root: Path) -> dict[str, str]:
    """Do every instruction in the root; return the image's environment."""
    environ, folder = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, "/"
    for word, words in instructions():
        if word == "WORKDIR":
            folder = words
            (root / folder.strip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            copy(words, root, folder)
        elif word == "ENV":
            environ |= dict(pair.split("=", 1) for pair in words.split())
        elif word == "RUN":
            lent = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            inside = [f"{name}={value}" for name, value in (environ | lent).items()]
            command = ["chroot", str(root), "/usr/bin/env", "-i", *inside, "/bin/sh", "-euc", f"cd {folder}; {words}"]
            subprocess.run(command, check=True)
    return environ


def main(argv: list[str]) -> int:
    """Make the root, build in it, work in it."""
    parser = argparse.ArgumentParser(prog="try_image.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder that is not there, or holds a bare Debian")
    parser.add_argument("--suite", default="trixie")
    parser.add_argument(
        "--bind", type=Path, action="append", default=[], help="a folder of this machine that pip needs"
    )
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if not given.apart:  # No other process sees mounts from here on; they go with this one.
        os.execvp("unshare", ["unshare", "--mount", sys.executable, __file__, "--apart", *argv])  # noqa: S606
    root = given.folder.absolute()
    if not (root / "etc/debian_version").exists():
        made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", given.suite, str(root)]
        subprocess.run(made, check=True)
    lend(root, given.bind)
    inside = " ".join(f"{name}={value}" for name, value in build(root).items())
    return subprocess.run(["/bin/sh", "-c", WORK, "try", str(root), inside], check=False).returncode


def lend(root: Path, folders: list[Path]) -> None:
    """Let the root have what pip is configured with here: an image's builder has a network and a configuration of its own."""
    python = root / "usr/bin/python"
    if not python.exists():
        python.symlink_to("python3")
    for name in LENT:
        if Path(name).is_file():
            target = root / name.strip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(name, target)
    for folder in folders:
        target = root / str(folder.absolute()).strip("/")
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", str(folder.absolute()), str(target)], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
