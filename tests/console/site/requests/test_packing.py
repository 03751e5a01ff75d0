"""The server packs answers where their length betrays no secret, and the first load of a page is small."""

from __future__ import annotations

import gzip
import re

import brotli
import pytest
from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from console.site.requests.packing import BYTES_MIN, OURS, PackingMiddleware, find_coding
from fabric.composition import engine as wiring
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge

KB = 1_000
FIRST_LOAD_MAX = 60 * KB
"""Bytes of script and style that a page may send to a browser that has none of them."""
UNPACK = {"br": brotli.decompress, "gzip": gzip.decompress}
BROWSER = {"host": "127.0.0.1", "accept-encoding": "gzip, deflate, br, zstd", "sec-fetch-site": "same-origin"}
TEXT = "<p>words</p>" * 500


def ask(answer=None, **headers):
    """The packed answer to a request with these headers; ``_`` stands for a hyphen."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = RequestFactory().get("/runs", headers={"accept-encoding": "gzip, br"} | named)
    return PackingMiddleware(lambda _: answer or HttpResponse(TEXT))(request)


def read(response):
    raw = b"".join(response) if response.streaming else response.content
    assert int(response.headers.get("Content-Length", len(raw))) == len(raw)
    return UNPACK[response.headers["Content-Encoding"]](raw) if "Content-Encoding" in response.headers else raw


@pytest.mark.parametrize("site", OURS)
def test_a_page_that_no_other_site_asked_for_is_packed(site):
    answer = ask(sec_fetch_site=site)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.content) < len(TEXT) / 4
    assert read(answer).decode() == TEXT


@pytest.mark.parametrize("headers", [{"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}, {}])
def test_a_page_that_another_site_may_have_asked_for_is_not_packed(headers):
    answer = ask(**headers)
    assert "Content-Encoding" not in answer.headers
    assert read(answer).decode() == TEXT
    assert "Sec-Fetch-Site" in answer.headers["Vary"]


def test_a_program_that_shows_its_token_gets_packed_answers():
    answer = ask(HttpResponse(f'["{TEXT}"]', content_type="application/json"), authorization="Bearer one")
    assert answer.headers["Content-Encoding"] == "gzip"


def test_the_length_of_a_packed_page_is_padded_anew_each_time():
    assert len({len(ask(sec_fetch_site="none").content) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse("x" * (BYTES_MIN - 1)),
        HttpResponse(TEXT, content_type="application/octet-stream"),
        StreamingHttpResponse([TEXT]),
        HttpResponse(TEXT, headers={"Content-Encoding": "br"}),
    ],
    ids=["short", "another kind", "streamed", "packed"],
)
def test_what_is_left_as_it_is(answer):
    before = answer.headers.get("Content-Encoding")
    assert ask(answer, sec_fetch_site="none").headers.get("Content-Encoding") == before


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", ""),
        ("identity", ""),
        ("gzip", "gzip"),
        ("GZIP;q=0.5, BR;q=1.0", "br"),
        ("br;q=0, gzip", "gzip"),
        ("br; q=0.000", ""),
        ("zstd, deflate", ""),
    ],
)
def test_a_coding_is_one_that_the_asker_can_unpack(accepted, coding):
    request = RequestFactory().get("/", headers={"accept-encoding": accepted})
    assert find_coding(request, ("br", "gzip")) == coding


# -- over the whole stack ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", ["br", "gzip", ""])
@pytest.mark.parametrize("name", ["shell/tokens.css", "icons.svg", "shell/console.js", "vendor/htmx-4.0.1.min.js"])
def test_a_file_is_what_it_was_once_it_is_unpacked(client, name, accepted):
    headers = {"host": "127.0.0.1", "accept-encoding": accepted, "sec-fetch-site": "cross-site"}
    for _ in range(2):  # The second time it is kept.
        answer = client.get(f"/static/{name}", headers=headers)
        assert answer.headers.get("Content-Encoding", "") == accepted
        assert "Accept-Encoding" in answer.headers["Vary"]
        assert read(answer) == (settings.BASE_DIR / "static" / name).read_bytes()
    mark = answer.headers["ETag"]
    again = client.get(f"/static/{name}", headers=headers | {"if-none-match": mark})
    assert (again.status_code, read(again)) == (304, b"")


def test_a_part_of_a_file_is_not_packed(client):
    answer = client.get("/static/shell/tokens.css", headers=BROWSER | {"range": "bytes=0-9"})
    assert (answer.status_code, answer.headers.get("Content-Encoding")) == (206, None)
    assert len(read(answer)) == 10


@pytest.fixture
def run(actor, small):
    return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=small, text="Go").run_id


@pytest.mark.parametrize("accepted", ["br", "gzip"])
@pytest.mark.parametrize("address", ["/", "/runs", "/runs/{run}", "/reviews", "/fabrics", "/api/v1/docs", "/login"])
def test_scripts_and_styles_of_a_first_load_are_small(browser, run, address, accepted):
    headers = {"host": "127.0.0.1", "accept-encoding": accepted}
    page = browser.get(address.format(run=run), headers=headers | {"sec-fetch-site": "none"})
    assert page.status_code == 200
    named = set(re.findall(r'(?:src|href)="(/static/[^"]+\.(?:js|css))', read(page).decode()))
    assert len(named) > 5
    sent = {one: len(b"".join(browser.get(one, headers=headers))) for one in named}
    assert sum(sent.values()) < FIRST_LOAD_MAX, sent


def test_the_page_of_the_api_is_small(browser):
    page = browser.get("/api/v1/docs", headers=BROWSER)
    assert page.headers["Content-Encoding"] == "gzip"
    assert len(page.content) < 60 * KB
