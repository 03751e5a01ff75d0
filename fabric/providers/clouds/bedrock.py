"""Models that Amazon Bedrock serves (Converse)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fabric.core.spec.tree import ModelSpec
from fabric.providers.exchange.http_model import HttpModel
from fabric.providers.exchange.keys import NotSignedIn, SignedIn, SignIn
from fabric.providers.exchange.wire import read_host
from fabric.providers.protocols.converse import PASSED_ON, Converse
from fabric.providers.refusals.errors import SettingNames

SERVICE = "bedrock"
_model_id = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
_region = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")


class Bedrock(HttpModel):
    """The ``ModelPort`` for Amazon Bedrock. Options: those that every endpoint takes unchanged.

    A model's id is one of Bedrock's, an inference profile's, or an ARN. Answers come at once: Bedrock streams in a
    form of its own.
    """

    PROTOCOL = Converse()
    NAMES = SettingNames(
        "FABRIC_BEDROCK_URL", "FABRIC_BEDROCK_KEY", "", "https://bedrock-runtime.us-east-1.amazonaws.com"
    )
    OPTIONS = frozenset({*PASSED_ON, "extra_body", "schema_with_tools"})

    def _explain_refusal(self, spec: ModelSpec, model: str, url: str) -> str:
        if _model_id.fullmatch(model):
            return ""
        return f"has the model id {model[:100]!r}, which is none of Bedrock's; write one like amazon.nova-lite-v1:0"


class AwsSignIn(SignIn):
    """AWS's own chain of credentials, and Signature Version 4 (``botocore.auth.SigV4Auth``). Needs the extra
    ``bedrock``.
    """

    source = "the AWS credentials of this installation"

    def __init__(self) -> None:
        super().__init__()
        self._session: Any = None
        self._credentials: Any = None

    def _sign_in(self, url: str) -> SignedIn:
        try:
            from botocore.auth import SigV4Auth
            from botocore.awsrequest import AWSRequest
            from botocore.session import Session
        except ImportError:
            raise NotSignedIn("to sign in with AWS's own credentials, install the extra `bedrock`") from None
        if self._session is None:
            self._session = Session()
        found = _region.search(read_host(url))
        region = found[1] if found else self._session.get_config_variable("region")
        if not region:
            raise NotSignedIn("its URL names no region of AWS; set AWS_DEFAULT_REGION, or a URL with one in it")
        if self._credentials is None:
            self._credentials = self._session.get_credentials()
        if self._credentials is None:
            raise NotSignedIn("no AWS credentials are found; configure them as for the AWS command line")
        frozen = self._credentials.get_frozen_credentials()

        def headers(address: str, content: bytes) -> Mapping[str, str]:
            signed = AWSRequest("POST", address, {"Content-Type": "application/json"}, content)
            SigV4Auth(frozen, SERVICE, region).add_auth(signed)
            return {name: value for name, value in signed.headers.items() if name.lower() != "content-type"}

        return SignedIn(self.source, headers, frozen.token or "")
