"""Canaries: a secret of each kind for one installation, and the places in which none of them may stand."""

from __future__ import annotations

import base64
import re
import secrets
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from console.launch.processes.keeper import descendants

PAGES_MAX = 60
FABRIC = """\
name: canaries
title: Canaries
description: Asks an endpoint that tells what it was sent.
example: Ask it.
models:
  - {name: small, provider: openai, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
tools:
  - name: look
    kind: http
    effect: read_only
    description: Looks.
    target: http://HOST/look
    method: GET
    headers_from: {X-Key: CANARY_TOOL}
    parameters: {type: object, properties: {}}
  - name: pay
    kind: http
    effect: irreversible
    description: Pays.
    target: http://HOST/pay
    parameters: {type: object, properties: {}}
agents:
  - {name: looker, model: small, answers: text, instructions: Look and say., tools: [look, pay]}
topology:
  workers: [looker]
  plan:
    goal: It was looked at.
    briefs: [{agent: looker, title: The look, instructions: Look.}]
    exit_criteria: [It was looked at.]
policy:
  budget: {run_usd_micros: 100000}
reviewers: [owner]
"""


def made(authority: str) -> dict[str, str]:
    """A value for each variable that may hold a secret and is used here."""
    keys = {f"FABRIC_{name}_KEY": f"canary-{name}-{secrets.token_hex(12)}" for name in ("MODEL", "ANTHROPIC", "GOOGLE")}
    return keys | {
        "FABRIC_SECRET_KEY": f"canary-signing-{secrets.token_hex(20)}",
        "FABRIC_KEY_RING": secrets.token_hex(32),
        "FABRIC_AUDIT_KEY": secrets.token_hex(32),
        "FABRIC_WEBHOOK_SECRET": f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}",
        "FABRIC_NOTIFY_WEBHOOKS": f"http://{authority}/hook?t=canary-hook-{secrets.token_hex(12)}",
        "FABRIC_SMTP_PASSWORD": f"canary-smtp-{secrets.token_hex(12)}",
    }


def needles(values: Mapping[str, str]) -> dict[bytes, str]:
    """Return what is looked for, each with its name: a value as it is, in base64 and percent-encoded."""
    found: dict[bytes, str] = {}
    for name, value in values.items():
        told = (
            urlsplit(value).query.partition("=")[2]
            if name == "FABRIC_NOTIFY_WEBHOOKS"
            else value.removeprefix("whsec_")
        )
        for form in (told.encode(), base64.b64encode(told.encode()).rstrip(b"="), quote(told, safe="").encode()):
            found[form] = name
    return found


def hits(places: Iterator[tuple[str, bytes]], looked_for: Mapping[bytes, str]) -> tuple[dict[str, set[str]], int]:
    """The names of the canaries by the place that has them, and how many places were looked at."""
    found: dict[str, set[str]] = {}
    looked = 0
    for place, raw in places:
        looked += 1
        for needle, name in looked_for.items():
            if needle in raw:
                found.setdefault(place, set()).add(name)
    return found, looked


def of_files(*folders: Path) -> Iterator[tuple[str, bytes]]:
    """Every file."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield str(path), path.read_bytes()


def of_database(address: str, file: Path, copy: Path) -> Iterator[tuple[str, bytes]]:
    """A backup, as a file and as SQL. ``address``: of PostgreSQL; empty: it is the file of SQLite."""
    if address:
        for form in ("custom", "plain"):
            yield (
                f"pg_dump {form}",
                subprocess.run(["pg_dump", "-F", form, address], check=True, capture_output=True).stdout,
            )
        return
    with closing(sqlite3.connect(file)) as opened, closing(sqlite3.connect(copy)) as to:
        opened.backup(to)
        yield "dump", "\n".join(to.iterdump()).encode("utf-8", "replace")
    yield "backup", copy.read_bytes()


def of_processes(up: int) -> Iterator[tuple[str, bytes]]:
    """The command lines of all processes, and the environments of the installation's own."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield str(path), path.read_bytes()
        except OSError:
            continue  # It has ended since.
    for pid in (up, *descendants(up)):
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        # The variable of a tool is given to those who hand it out; no other program has a place for it.
        yield f"/proc/{pid}/environ", b"\0".join(one for one in raw.split(b"\0") if not one.startswith(b"CANARY_TOOL="))


def signed_in(link: str) -> httpx2.Client:
    """A browser's stead, signed in by a one-time link, whose token stands behind the #."""
    base = "{0.scheme}://{0.netloc}".format(urlsplit(link))
    link, _, secret = link.partition("#")
    client = httpx2.Client(base_url=base, headers={"Origin": base, "Referer": link}, timeout=60, trust_env=False)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get(link).text)
    assert token
    assert client.post(link, data={"csrfmiddlewaretoken": token[1], "token": secret}).status_code == 302
    return client


def of_pages(client: httpx2.Client, *begin: str) -> Iterator[tuple[str, bytes]]:
    """Pages, by the links on them, each shape of address a few times."""
    waiting, seen, shapes = list(begin), set(begin), dict[str, int]()
    while waiting and len(seen) < PAGES_MAX * 4:
        path = waiting.pop(0)
        answer = client.get(path)
        assert answer.status_code < 500, (path, answer.text[:500])
        yield path, answer.content + repr(answer.headers.raw).encode()
        for href in re.findall(
            r'href="([^"#]+)', answer.text if "html" in answer.headers.get("content-type", "") else ""
        ):
            to = urlsplit(urljoin(f"{client.base_url}{path}", href.replace("&amp;", "&")))
            shape = re.sub(r"[0-9a-f-]{12,}|\d+", "N", to.path)
            where = to.path + (f"?{to.query}" if to.query else "")
            new = where not in seen and shapes.get(shape, 0) < 2 and not to.path.startswith("/static")
            if new and to.netloc == client.base_url.netloc.decode() and len(shapes) < PAGES_MAX:
                shapes[shape] = shapes.get(shape, 0) + 1
                seen.add(where)
                waiting.append(where)


def of_api(client: httpx2.Client, run_id: str) -> Iterator[tuple[str, bytes]]:
    """Every answer of the API that is asked for with no more than a run's id."""
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    for path, operations in paths.items():
        where = path.replace("{run_id}", run_id)
        if "get" in operations and "{" not in where:
            with client.stream("GET", where) as answer:
                if "event-stream" not in answer.headers.get("content-type", ""):
                    yield where, answer.read()
