"""The tables of ``answers`` read what comes back over HTTP."""

import random
import time

import httpx2
import pytest

from fabric.http.bodies import (
    CHARSETS,
    READ_AS,
    NotJson,
    find_codec,
    find_page,
    is_json,
    is_json_lines,
    leads_to_sign_in,
    list_values,
    read_text,
    read_value,
    visible,
)
from fabric.http.headers import RETRY_AFTER_MAX_S, charset, encodings, location, media_type, retry_after_s

NOW = 1_795_000_000.0
JSON = "application/json"


def of(**given):
    return httpx2.Headers({name.replace("_", "-"): value for name, value in given.items()})


# -- headers --


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("Fri, 31 Dec 99999999999999 23:59:59 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MAX_S),
        ("Fri, 31 Dec 9999 23:59:59 -9959", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        ("Mon, 99 Jan 2026 99:99:99 +999999999999", None),
        ("9" * 4_000, None),
        ("1" * 30, RETRY_AFTER_MAX_S),
        ("1_0", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e9999", None),
        ("\u0663", None),
        ("soon", None),
        ("", None),
        ("1.5", 1.5),
        ("3", 3.0),
        ("30s", 30.0),
        ("9999-12-31T23:59:59Z", RETRY_AFTER_MAX_S),
        ("9999-99-31T23:59:59Z", None),
    ],
)
def test_a_wait_is_a_time_or_nothing(given, seconds):
    assert retry_after_s(httpx2.Headers([(b"retry-after", given.encode())]), NOW) == seconds


def test_the_longest_of_several_waits_holds():
    given = [(b"retry-after", one) for one in (b"5", b"soon", b"9")]
    assert retry_after_s(httpx2.Headers(given), NOW) == 9.0


def test_a_date_of_the_server_s_that_is_none_is_not_counted_from():
    headers = of(Retry_After="Sat, 28 Nov 2026 01:00:10 GMT", Date="Sat, 28 Nov 99999999999 01:00:00 GMT")
    assert retry_after_s(headers, 1_795_827_600.0) == 10.0


def test_one_wait_that_is_nonsense_does_not_hide_another():
    assert retry_after_s(of(Retry_After_Ms="-1", X_Ms_Retry_After_Ms="x", Retry_After="2"), NOW) == 2.0


READERS = [
    media_type,
    charset,
    encodings,
    lambda headers: location(headers, "https://example.org/a"),
    lambda headers: retry_after_s(headers, NOW),
]
NAMES = ["content-type", "content-encoding", "location", "retry-after", "retry-after-ms", "date"]


def test_no_header_raises_whatever_stands_in_it():
    draw = random.Random(7)
    words = [
        b"application/json",
        b"; charset=",
        b'"',
        b"gzip",
        b",",
        b"\xff\xfe",
        b"9" * 5_000,
        b"GMT",
        b"Fri, 31 Dec",
        b"//[",
        b"%",
        b":",
        b" ",
        b"\t",
    ]
    for _ in range(3_000):
        value = b"".join(draw.choice([*words, bytes([draw.randrange(1, 256)])]) for _ in range(draw.randrange(8)))
        headers = httpx2.Headers([(name.encode(), value) for name in NAMES])
        for read in READERS:
            read(headers)


@pytest.mark.parametrize(
    ("given", "kind", "named"),
    [
        ('Application/JSON; Charset="UTF-16"', "application/json", "utf-16"),
        ("application/json, application/json", "application/json", ""),
        ("text/html;charset='latin1'", "text/html", "latin1"),
        ("json", "", ""),
        (";", "", ""),
        ("x" * 2_000 + "/y", "", ""),
    ],
)
def test_a_type_and_its_charset(given, kind, named):
    assert (media_type(of(Content_Type=given)), charset(of(Content_Type=given))) == (kind, named)


def test_what_packs_nothing_is_no_packing():
    assert encodings(of(Content_Encoding="UTF-8")) == ()
    assert encodings(of(Content_Encoding=" GZip , identity,, br")) == ("gzip", "br")


def test_an_address_is_told_whole_or_not():
    assert location(of(Location="/b?c#d"), "https://example.org/a") == "https://example.org/b?c#d"
    assert location(of(Location="https://exa mple:x/"), "https://example.org/a") == ""
    assert location(of(), "https://example.org/a") == ""


# -- texts --


@pytest.mark.parametrize(
    ("body", "kind", "named", "text"),
    [
        ("é".encode("utf-8-sig"), JSON, "", "é"),
        ("é".encode("utf-16"), JSON, "utf-8", "é"),
        ("é".encode("utf-32"), "text/plain", "", "é"),
        ('{"a": "é"}'.encode("utf-16-le"), JSON, "", '{"a": "é"}'),
        ('{"a": "é"}'.encode("utf-16-be"), JSON, "utf-8", '{"a": "é"}'),
        ('{"a": "é"}'.encode("utf-32-be"), JSON, "", '{"a": "é"}'),
        ('{"a": "é"}'.encode(), JSON, "iso-8859-1", '{"a": "é"}'),
        ('{"a": "é"}'.encode("latin-1"), JSON, "iso-8859-1", '{"a": "é"}'),
        ('{"a": "é"}'.encode("latin-1"), JSON, "", '{"a": "\ufffd"}'),
        ("é".encode("utf-16-le"), "text/plain", "utf-16", "é"),
        (b"\x80 5", "text/plain", "latin-1", "€ 5"),
        ("日本".encode("shift_jis"), "text/plain", "Shift_JIS", "日本"),
        (b"caf\xe9", "text/plain", "base64", "caf\ufffd"),
        (b"a-b", "text/plain", "punycode", "a-b"),
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>',
            "application/xml",
            "",
            '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>',
        ),
        (b'<meta charset="windows-1251">\xcf', "text/html", "", '<meta charset="windows-1251">П'),
        (b'<meta charset="utf-16">a', "text/html", "", '<meta charset="utf-16">a'),
    ],
)
def test_bytes_become_the_text_that_they_are(body, kind, named, text):
    assert read_text(body, kind, named) == text


def test_each_charset_that_is_read_reads_every_byte():
    for name in (*CHARSETS, *READ_AS):
        assert find_codec(name), name
        assert isinstance(bytes(range(256)).decode(find_codec(name), "replace"), str)


@pytest.mark.parametrize(
    "name", ["idna", "punycode", "undefined", "unicode_escape", "rot13", "zlib", "utf-7", "x" * 41, "a\0b", "../os", ""]
)
def test_a_codec_that_is_no_charset_is_none(name):
    assert find_codec(name) == ""


# -- JSON --


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\ufeff{}", {}),
        (")]}'\n[1]", [1]),
        (')]}\',\n{"a": 1}', {"a": 1}),
        ('{"a": "line\none\ttab"}', {"a": "line\none\ttab"}),
        ("[" * 50 + "]" * 50, None),
        ("1" * 400, int("1" * 400)),
        ("-0.5", -0.5),
        ("1e400", "1e400"),
        ("null", None),
    ],
)
def test_what_has_one_meaning_is_read(text, value):
    found = read_value(text)
    assert found == value or value is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1}{"a": 2}', "goes on with a second value behind its end at character 8; one value is wanted"),
        ('{"a": 1}\n{"a": 2}\n', "goes on with a second value behind its end at character 8"),
        ("{} done", "goes on with something else behind its end at character 2"),
        ('{"a": [1, 2', "cannot be read at line 1, column 12 (it ends too early)"),
        ('{"a": "cut', "cannot be read at line 1, column 7"),
        ("{'a': 1}", "cannot be read at line 1, column 2"),
        ("[" * 65 + "]" * 65, "is nested deeper than 64 levels"),
        ("[" * 100_000, "is nested deeper than 64 levels"),
        ("7" * 5_000, "has a number of 5,000 digits; at most 1,000 are read"),
    ],
)
def test_what_has_none_is_one_sentence(text, said):
    with pytest.raises(NotJson) as caught:
        read_value(text)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_lines_are_a_list():
    assert list_values('\ufeff{"a": 1}\r\n\n\x1e[2]\n3') == [{"a": 1}, [2], 3]
    with pytest.raises(NotJson, match="is one value a line, and line 3 cannot be read"):
        list_values('1\n2\n{"a":')


def test_no_type_is_both_one_value_and_lines():
    for kind in (
        JSON,
        "text/json",
        "application/hal+json",
        "application/x-ndjson",
        "application/stream+json",
        "application/json-seq",
        "text/plain",
        "",
    ):
        assert not (is_json(kind) and is_json_lines(kind))
    assert is_json("application/problem+json")
    assert is_json_lines("application/stream+json")


# -- pages --

SIGN_IN = '<!DOCTYPE html><html><head><title>Sign in &middot; Acme</title></head><body><form><input type="password"></form></body></html>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SIGN_IN, 'a page to sign in ("Sign in · Acme")'),
        (
            "\ufeff <!-- a --><?xml version='1.0'?>\n<!-- b --><HTML><body>Please log in</body></html>",
            "a page to sign in",
        ),
        ("<html><h1>Bitte anmelden</h1></html>", 'a page to sign in ("Bitte anmelden")'),
        ('<html><form method="post"><input name="SAMLResponse"></form></html>', "a page to sign in"),
        ("<html><title>Welcome</title><h1>It works!</h1></html>", 'a web page ("Welcome")'),
        ("<html><nav>Log in</nav>" + "word " * 500 + "</html>", "a web page"),
        ("<p>a piece</p>", "None"),
        ('{"html": "<html>"}', "None"),
        ("", "None"),
    ],
)
def test_a_page_is_told_from_a_text(text, said):
    assert str(find_page(text)) == said


def test_words_of_a_page():
    assert visible("<html><script>var a</script><p>One &amp;</p><style>b") == "One &"


@pytest.mark.parametrize("path", ["/login", "/users/sign_in", "/oauth2/authorize", "/accounts/login/", "/sso"])
def test_an_address_to_sign_in_at(path):
    assert leads_to_sign_in(path)
    assert not leads_to_sign_in("/blog/logins-of-old")


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 5_000,
        "<!-- -->" * 2_500 + "x",
        "<script" * 3_000,
        "<html>" + "<" * 20_000,
        "<html>" + "<script>" * 2_500,
        "<html><input " + "a " * 9_000,
    ],
)
def test_no_markup_takes_long(text):
    began = time.process_time()
    find_page(text)
    visible(text)
    assert time.process_time() - began < 1.0
