"""Gets a person's identity from an identity provider by OpenID Connect Core 1.0. It uses an authorization code with
PKCE (RFC 7636), and later the refresh token.

Authlib makes the requests and judges the claims, joserfc the signatures. Answers are bounded in time; the addresses
are the provider's own, from its discovery document, which has to name the issuer that the operator set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from httpx2 import Client, HTTPError, InvalidURL, Timeout
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from fabric.adapters.people.oidc_answers import OidcAway, OidcClaims, OidcRefused

SCOPE = "openid email profile"
OFFLINE = "offline_access"
TIMEOUT_S = 5.0
KEYS_KEPT_S = 3_600.0
KEYS_AGAIN_S = 60.0
"""Least seconds between two searches for an unknown key: a provider changes its keys."""
LEEWAY_S = 60
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by the provider's own key: never ``none``, and none that is made with the client's secret."""
GROUPS = "groups"


class OidcProvider:
    """One provider, with this installation's client there. Safe to use from several threads."""

    def __init__(self, issuer: str, client_id: str, secret: str, groups_claim: str = GROUPS) -> None:
        self.issuer, self._id, self._secret, self._groups = issuer, client_id, secret, groups_claim
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._looked_at = float("-inf")

    def address(self, *, back: str, state: str, nonce: str, verifier: str, again: bool = False) -> str:
        """Return the address to which the browser goes. ``again``: the provider has to see the person anew. Raises
        OidcAway.
        """
        found = self._metadata()
        more: dict[str, str] = {"prompt": "login", "max_age": "0"} if again else {}
        if OFFLINE in found.get("scopes_supported", ()):
            # OpenID Connect Core 11: a refresh token for later wants consent, which providers that keep it do not ask
            # for again.
            more.setdefault("prompt", "consent") if not again else more.update(prompt="login consent")
        elif _is_google(self.issuer):
            more["access_type"] = "offline"
            more["prompt"] = "consent"
        with self._client() as client:
            address, _ = client.create_authorization_url(
                found["authorization_endpoint"],
                state=state,
                nonce=nonce,
                code_verifier=verifier,
                redirect_uri=back,
                scope=self._scope(found),
                **more,
            )
        return str(address)

    def exchange(self, code: str, *, back: str, nonce: str, verifier: str) -> OidcClaims:
        """Return the person who came back with this code. Raises OidcAway, OidcRefused."""
        answer = self._token(
            lambda client, url: client.fetch_token(
                url, grant_type="authorization_code", code=code, redirect_uri=back, code_verifier=verifier
            )
        )
        if not answer.get("id_token"):
            raise OidcRefused("it gave no ID token")
        claims = self._claims(answer["id_token"], answer, nonce=nonce)
        return self._read_claims(claims, answer, always=False)

    def refresh_claims(self, refresh: str, subject: str) -> OidcClaims:
        """Return the present claims about a known person; the groups are read anew. Raises OidcAway, OidcRefused."""
        answer = self._token(lambda client, url: client.refresh_token(url, refresh_token=refresh))
        given = answer.get("id_token")
        claims = self._claims(given, answer) if given else {"sub": subject}
        if claims["sub"] != subject:
            raise OidcRefused("it answered for another person")
        known = self._read_claims(claims, answer, always=True)
        return known if known.refresh else _keep_refresh(known, refresh)

    def _read_claims(self, claims: Mapping[str, Any], answer: Mapping[str, Any], *, always: bool) -> OidcClaims:
        said = dict(claims)
        if always or self._groups not in said or "email" not in said:
            said |= {name: value for name, value in self._userinfo(answer, said["sub"]).items() if name != "sub"}
        groups = said.get(self._groups, ())
        if groups and (isinstance(groups, str) or not isinstance(groups, list | tuple)):
            groups = (groups,)
        names = said.get("_claim_names")
        if isinstance(names, Mapping) and self._groups in names:
            raise OidcRefused("it has too many groups for one answer: let it send those of this client alone")
        at = claims.get("auth_time")
        return OidcClaims(
            subject=str(said["sub"]),
            email=str(said.get("email") or "") if said.get("email_verified") is True else "",
            username=str(said.get("preferred_username") or ""),
            domain=str(claims.get("hd") or "") if _is_google(self.issuer) else "",
            groups=frozenset(str(one) for one in groups),
            auth_time=int(at) if isinstance(at, int | float) else 0,
            refresh=str(answer.get("refresh_token") or ""),
        )

    def _userinfo(self, answer: Mapping[str, Any], subject: str) -> Mapping[str, Any]:
        """Return the claims of the userinfo endpoint (OpenID Connect Core 5.3). Raises OidcRefused for another
        person's (5.3.2).
        """
        url = self._metadata().get("userinfo_endpoint")
        if not url or not answer.get("access_token"):
            return {}
        found = self._get(url, {"Authorization": f"Bearer {answer['access_token']}"})
        if found.get("sub") != subject:
            raise OidcRefused("its details are about another person")
        return found

    def _claims(self, token: str, answer: Mapping[str, Any], *, nonce: str = "") -> CodeIDToken:
        """Return the claims of an ID token (OpenID Connect Core 3.1.3.7). Raises OidcRefused."""
        options = {"iss": {"essential": True, "value": self.issuer}, "aud": {"essential": True, "value": self._id}}
        params = {"client_id": self._id, "nonce": nonce, "access_token": answer.get("access_token")}
        try:
            decoded = self._decode_token(str(token))
            claims = CodeIDToken(decoded.claims, decoded.header, options, params)
            claims.validate(leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise OidcRefused(f"its ID token is not accepted ({type(error).__name__}: {error})") from error
        return claims

    def _decode_token(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, self._key_set(), algorithms=list(ALGORITHMS))
        except (JoseError, ValueError):
            if time.monotonic() - self._looked_at < KEYS_AGAIN_S:
                raise
            return jwt.decode(token, self._key_set(anew=True), algorithms=list(ALGORITHMS))

    def _key_set(self, *, anew: bool = False) -> KeySet:
        self._metadata(anew=anew)
        assert self._keys is not None
        return self._keys

    def _metadata(self, *, anew: bool = False) -> Mapping[str, Any]:
        """Return the discovery document (OpenID Connect Discovery 1.0), with its keys."""
        with self._lock:
            if self._found and not anew and time.monotonic() - self._looked_at < KEYS_KEPT_S:
                return self._found
            found = self._get(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self.issuer:
                raise OidcAway(
                    f"it calls itself {str(found.get('issuer'))[:200]!r}, and not as FABRIC_OIDC_ISSUER does"
                )
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not isinstance(found.get(name), str) or not _is_safe(found[name], self.issuer):
                    raise OidcAway(f"its {name} is no address that can be used")
            try:
                self._keys = KeySet.import_key_set(self._get(found["jwks_uri"]))  # type: ignore[arg-type]
            except (JoseError, ValueError, KeyError, TypeError) as error:
                raise OidcAway("its keys cannot be read") from error
            self._found, self._looked_at = found, time.monotonic()
            return found

    def _scope(self, found: Mapping[str, Any]) -> str:
        supported = found.get("scopes_supported", ())
        return " ".join([SCOPE, *(one for one in (OFFLINE, GROUPS) if one in supported)])

    def _token(self, ask: Any) -> Mapping[str, Any]:
        url = self._metadata()["token_endpoint"]
        try:
            with self._client() as client:
                return dict(ask(client, url))
        except OAuthError as error:
            said = f"{error.error}: {error.description or ''}"[:300]
            # RFC 6749 5.2: of all errors this one alone is about the person; the others are the operator's or the
            # provider's own.
            if error.error == "invalid_grant":
                raise OidcRefused(said) from error
            raise OidcAway(said) from error
        except (HTTPError, InvalidURL, ValueError) as error:
            raise OidcAway(f"{type(error).__name__} while it was asked for a token") from error

    def _client(self) -> OAuth2Client:
        methods = self._found.get("token_endpoint_auth_methods_supported") or ("client_secret_basic",)
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return OAuth2Client(
            self._id,
            self._secret or None,
            token_endpoint_auth_method=method if self._secret else "none",
            code_challenge_method="S256",
            timeout=Timeout(TIMEOUT_S),
            trust_env=False,
        )

    def _get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        try:
            with Client(timeout=Timeout(TIMEOUT_S), trust_env=False) as client:
                answer = client.get(url, headers={"Accept": "application/json", **(headers or {})})
            found = answer.json() if answer.status_code == 200 else None
        except (HTTPError, InvalidURL, ValueError) as error:
            raise OidcAway(f"{type(error).__name__} at {urlsplit(url).netloc}") from error
        if headers and answer.status_code in (401, 403):
            raise OidcRefused("it does not tell of this person any more")
        if not isinstance(found, dict):
            raise OidcAway(f"{urlsplit(url).netloc} answered {answer.status_code} where JSON was asked for")
        return found


def _keep_refresh(known: OidcClaims, refresh: str) -> OidcClaims:
    """Return the person with the old refresh token, which stays valid where the provider gives no other (RFC 6749
    6).
    """
    return OidcClaims(
        known.subject, known.email, known.username, known.domain, known.groups, known.auth_time, refresh=refresh
    )


def _is_google(issuer: str) -> bool:
    return urlsplit(issuer).hostname == "accounts.google.com"


def _is_safe(url: str, issuer: str) -> bool:
    """Return True if the address is encrypted, or the issuer is not. Only an issuer on this machine may be
    unencrypted.
    """
    return urlsplit(url).scheme == "https" or urlsplit(issuer).scheme == "http"
