from django.http import HttpResponse
from django.test import RequestFactory

from console.headers import SafeHeadersMiddleware


def answer(**headers):
    return SafeHeadersMiddleware(lambda request: HttpResponse(headers=headers))(RequestFactory().get("/"))


def test_nothing_inline_and_nothing_from_elsewhere():
    policy = answer().headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
    assert "require-trusted-types-for 'script'; trusted-types fabric;" in policy
    assert "report-uri /csp-reports; report-to csp" in policy
    assert answer().headers["Reporting-Endpoints"] == 'csp="/csp-reports"'


def test_a_view_may_set_its_own():
    assert answer(**{"Content-Security-Policy": "default-src 'self'"}).headers["Content-Security-Policy"] == (
        "default-src 'self'"
    )
