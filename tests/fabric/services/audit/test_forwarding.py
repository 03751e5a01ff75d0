"""The audit stream goes to syslog and OTLP receivers: real sockets on loopback, each record at least once, in order."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from console.pages.installation.health import healthz
from fabric.adapters.audit import NotTaken
from fabric.adapters.audit.syslog import PARAMS, Syslog
from fabric.composition import outbox
from fabric.core.audit.lines import Act
from fabric.models import AuditForward, AuditLine
from fabric.selectors.audit.forwarding import OTLP, SYSLOG, forwards_standing
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal
from fabric.services.audit.forwarding import forward, is_forwarding_due
from fabric.worker.process.duties import DutyThread

RFC5424 = re.compile(
    r"^<(?P<pri>\d{1,3})>1 (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) (?P<host>[!-~]{1,255}) fabric-flow - (?P<msgid>[!-~]{1,32}) "
    r"\[fabric@32473(?P<params>(?: [!-<>-\\^-~]{1,32}=\"(?:[^\"\\\]]|\\[\"\\\]])*\")*)\] \ufeff(?P<text>[^\r\n]*)$"
)
"""Section 6 of the RFC, as far as we use it."""


@pytest.fixture
def told(actor):
    def tell(*subjects):
        for subject in subjects:
            audit_record(actor=actor, act=Act.RETENTION_SET, subject=subject, reason='it "is] \\ so\nyes')
        audit_seal()

    return tell


class SyslogServer:
    """A peer of the protocol: reads until the sender closes, then closes. ``deaf``: accepts and resets, having read nothing."""

    def __init__(self, context=None):
        self.received, self.deaf = [], False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._context = context
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with closing(peer):
                if self.deaf:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    continue
                try:
                    self._read(self._context.wrap_socket(peer, server_side=True) if self._context else peer)
                except OSError:
                    continue

    def _read(self, peer):
        raw = b""
        while piece := peer.recv(65_536):
            raw += piece
        while raw:
            size, _, rest = raw.partition(b" ")
            self.received.append(rest[: int(size)].decode())
            raw = rest[int(size) :]
        if self._context:
            peer.unwrap()

    def close(self):
        self._socket.close()


@contextmanager
def serving(context=None):
    server = SyslogServer(context)
    try:
        yield server
    finally:
        server.close()


def subjects(messages):
    return [re.search(r' subject="([^"]*)"', one)[1] for one in messages]


def again():
    AuditForward.objects.update(next_at=0)


def test_records_go_over_tcp_once_and_in_order_as_the_rfc_says(actor, told, settings):
    told("a", "b")
    with serving() as server:
        settings.FABRIC_AUDIT_SYSLOG = f"tcp://127.0.0.1:{server.port}"
        assert is_forwarding_due(SYSLOG)
        assert forward(SYSLOG) == 4
        assert not is_forwarding_due(SYSLOG)
        assert forward(SYSLOG) == 0
        told("c")
        assert forward(SYSLOG) == 1
        assert subjects(server.received)[-3:] == ["a", "b", "c"]
        for one in server.received:
            matched = RFC5424.match(one)
            assert matched, one
            assert matched["pri"] == str(13 * 8 + 6)
        assert r'actor="owner"' in server.received[-1]
        assert f'hash="{bytes(AuditLine.objects.get(subject="c").hash).hex()}"' in server.received[-1]


def test_a_name_with_the_signs_of_the_protocol_stays_one_parameter(told, settings):
    name = 'a"] [x y="1"] \\ b\nc'
    told(name)
    with serving() as server:
        settings.FABRIC_AUDIT_SYSLOG = f"tcp://127.0.0.1:{server.port}"
        forward(SYSLOG)
        matched = RFC5424.match(server.received[-1])
    assert matched, server.received[-1]
    said = dict(re.findall(r' ([!-<>-\\^-~]+)="((?:[^"\\\]]|\\["\\\]])*)"', matched["params"]))
    assert re.sub(r'\\(["\\\]])', r"\1", said["subject"]) == name.replace("\n", " ")
    assert set(said) <= set(PARAMS)


def test_each_workspace_s_records_go_once_under_its_own_name(actor, stranger, told, settings):
    audit_record(actor=stranger, act=Act.RETENTION_SET, subject="theirs")
    told("ours")
    with serving() as server:
        settings.FABRIC_AUDIT_SYSLOG = f"tcp://127.0.0.1:{server.port}"
        assert forward(SYSLOG) == AuditLine.objects.count()
        assert forward(SYSLOG) == 0
    named = [re.search(r' id="([^"]*)" workspace="([^"]*)"', one).groups() for one in server.received]
    assert sorted(named) == sorted(AuditLine.objects.values_list("id", "workspace_id"))


def test_a_receiver_that_fails_gets_everything_when_it_is_back(actor, told, settings):
    told("a")
    with serving() as server:
        settings.FABRIC_AUDIT_SYSLOG = f"tcp://127.0.0.1:{server.port}"
        server.deaf = True
        assert forward(SYSLOG) == 0
        (standing,) = forwards_standing(actor)
        assert (standing.failures, standing.behind, standing.failing) == (1, 3, True)
        assert "cannot be reached" in standing.said
        assert json.loads(healthz(_get()).content) == {"status": "ok", "database": "ok", "audit_forwarding": "failing"}
        server.deaf = False
        assert forward(SYSLOG) == 0, "it waits before it tries again"
        told("b")
        again()
        assert forward(SYSLOG) == 4
        assert subjects(server.received)[-2:] == ["a", "b"]
        assert not forwards_standing(actor)[0].failing
        assert json.loads(healthz(_get()).content)["audit_forwarding"] == "ok"


def test_each_failure_doubles_the_wait_up_to_ten_minutes(told, settings):
    told("a")
    settings.FABRIC_AUDIT_SYSLOG = "tcp://127.0.0.1:9"
    waits = []
    for _ in range(9):
        again()
        before = time.time_ns() // 1_000
        assert forward(SYSLOG) == 0
        waits.append((AuditForward.objects.get().next_at - before) // 1_000_000)
    assert waits == [5, 10, 20, 40, 80, 160, 320, 600, 600]


def test_what_was_sent_before_the_place_was_kept_comes_twice_and_none_is_lost(told, settings):
    told("a")
    with serving() as server:
        settings.FABRIC_AUDIT_SYSLOG = f"tcp://127.0.0.1:{server.port}"
        forward(SYSLOG)
        AuditForward.objects.update(seq=1)
        forward(SYSLOG)
        assert subjects(server.received).count("a") == 2


def test_a_receiver_that_is_named_no_more_is_forgotten(told, settings):
    told("a")
    AuditForward.objects.create(
        target="otlp", workspace_id=AuditLine.objects.first().workspace_id, failures=9, sent_at=time.time_ns() // 1_000
    )
    assert not is_forwarding_due(OTLP), "workers that are replaced now may name it still"
    forward(OTLP)
    AuditForward.objects.update(sent_at=1)
    assert is_forwarding_due(OTLP)
    forward(OTLP)
    assert not AuditForward.objects.exists()
    assert not is_forwarding_due(OTLP)


def test_records_go_over_udp_one_a_datagram(told, settings):
    told("a", "b")
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(5)
        settings.FABRIC_AUDIT_SYSLOG = f"udp://127.0.0.1:{peer.getsockname()[1]}"
        assert forward(SYSLOG) == 4
        found = [peer.recv(65_536).decode() for _ in range(4)]
    assert all(RFC5424.match(one) for one in found)
    assert subjects(found)[-2:] == ["a", "b"]


def test_records_go_over_tls_to_a_receiver_that_is_trusted_and_to_no_other(told, settings, tmp_path, monkeypatch):
    told("a")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {certificate}"
    named = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *made.split(), *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as server:
        settings.FABRIC_AUDIT_SYSLOG = f"tls://127.0.0.1:{server.port}"
        assert forward(SYSLOG) == 0
        assert "certificate" in AuditForward.objects.first().said.lower()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        again()
        assert forward(SYSLOG) == 3
        assert subjects(server.received)[-1] == "a"


class Collector(HTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.answer, self.body, self.headers_out = [], 200, b"{}", {}
        self.endless, self.drained, self.done = False, False, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), json.loads(raw)))
        self.send_response(self.server.answer)
        for name, value in self.server.headers_out.items():
            self.send_header(name, value)
        if not self.server.endless:
            self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)
        if self.server.endless:
            self.server.drained = self._go_on()
            self.server.done.set()

    def _go_on(self):
        """Return True if everything was read of an answer of 64 MB."""
        try:
            for _ in range(1_000):
                self.wfile.write(b"x" * 65_536)
        except OSError:
            return False
        return True

    def log_message(self, *_):
        return


@pytest.fixture
def collector(settings):
    server = Collector()
    settings.FABRIC_AUDIT_OTLP = f"http://127.0.0.1:{server.server_port}/v1/logs"
    settings.FABRIC_AUDIT_OTLP_KEY = "sesame"
    yield server
    server.shutdown()
    server.server_close()


def attributes(record):
    return {one["key"]: next(iter(one["value"].values())) for one in record["attributes"]}


def test_records_go_as_otlp_logs(told, collector):
    told("a")
    assert forward(OTLP) == 3
    ((path, headers, body),) = collector.requests
    assert (path, headers["Content-Type"], headers["Authorization"]) == (
        "/v1/logs",
        "application/json",
        "Bearer sesame",
    )
    (resource,) = body["resourceLogs"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "fabric-flow"}}]
    record = resource["scopeLogs"][0]["logRecords"][-1]
    line = AuditLine.objects.get(subject="a")
    assert record["timeUnixNano"] == str(line.at * 1_000)
    assert (record["severityNumber"], record["severityText"], record["eventName"]) == (
        9,
        "INFO",
        "fabric.audit.retention_set",
    )
    assert attributes(record)["fabric.audit.seq"] == "3"
    assert attributes(record)["fabric.audit.hash"] == bytes(line.hash).hex()
    assert set(record) <= {
        *("timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "body", "attributes"),
        *("droppedAttributesCount", "flags", "traceId", "spanId", "eventName"),
    }, "opentelemetry.proto.logs.v1.LogRecord has no such field"


@pytest.mark.parametrize("answer", [400, 401, 429, 500, 503])
def test_an_otlp_receiver_that_does_not_take_them_gets_them_again(told, collector, answer):
    told("a")
    collector.answer, collector.headers_out = answer, {"Retry-After": "120"}
    assert forward(OTLP) == 0
    row = AuditForward.objects.first()
    assert row.said == f"the OTLP receiver answered {answer}"
    assert row.next_at - AuditLine.objects.latest("at").at > 100 * 1_000_000
    collector.answer = 200
    again()
    assert forward(OTLP) == 3


def test_what_an_otlp_receiver_would_not_keep_is_said(actor, told, collector):
    told("a")
    collector.body = b'{"partialSuccess": {"rejectedLogRecords": "2", "errorMessage": "too old"}}'
    assert forward(OTLP) == 3
    assert forwards_standing(actor)[0].said == "the OTLP receiver would not keep 2 records: too old"


def test_of_a_long_answer_of_an_otlp_receiver_64_kb_are_read(told, collector):
    told("a")
    collector.endless = True
    assert forward(OTLP) == 3
    assert collector.done.wait(30)
    assert not collector.drained


def test_a_syslog_receiver_that_goes_on_talking_does_not_answer():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def talk():
            peer, _ = server.accept()
            with closing(peer), suppress(OSError):
                while True:
                    peer.sendall(b"x" * 4_096)

        threading.Thread(target=talk, daemon=True).start()
        syslog = Syslog(f"tcp://127.0.0.1:{server.getsockname()[1]}", deadline_s=0.2)
        with pytest.raises(NotTaken, match=r"did not answer within 0.2 s"):
            syslog.send([])


@pytest.mark.parametrize("hanging", [SYSLOG, OTLP])
def test_a_receiver_that_hangs_delays_no_other_and_no_notification(told, settings, collector, hanging):
    """Each thread of a worker does its own; the one that hangs still does so when the others are done."""
    told("a")
    with serving() as server, closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        silent = f"127.0.0.1:{deaf.getsockname()[1]}"
        settings.FABRIC_AUDIT_SYSLOG = f"tcp://{silent if hanging == SYSLOG else f'127.0.0.1:{server.port}'}"
        if hanging == OTLP:
            settings.FABRIC_AUDIT_OTLP = f"http://{silent}/v1/logs"
        settings.FABRIC_NOTIFY_WEBHOOKS = ("http://127.0.0.1:9/hooks",)
        done = {duty.name: threading.Event() for group in outbox.duties() for duty in group}
        groups = [[noting(duty, done[duty.name]) for duty in group] for group in outbox.duties()]
        threads = [DutyThread(group, "one") for group in groups]
        for thread in threads:
            thread.start()
        peer, _ = deaf.accept()
        with closing(peer):
            other = OTLP if hanging == SYSLOG else SYSLOG
            assert done[f"audit_{other}"].wait(8)
            assert done["notify"].wait(8)
            assert not done[f"audit_{hanging}"].is_set()
        for thread in threads:
            thread.stop()


def noting(duty, done):
    def act():
        duty.act()
        done.set()

    return replace(duty, act=act)


def _get():  # A health check, as a load balancer asks it.
    from django.test import RequestFactory

    return RequestFactory().get("/healthz")
