"""Speaks to one Kubernetes API server: every call has a time-out, every foreign exception becomes one of ours."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3
import yaml  # type: ignore[import-untyped]  # what the client reads its kubeconfig with
from kubernetes import client
from kubernetes.client.exceptions import ApiException, OpenApiException
from kubernetes.config import ConfigException, new_client_from_config

from inventory.errors import BadSettings, BookUnreachable, ChangeRefused, LoginRefused
from inventory.redact import REDACTOR
from inventory.secrets import Secret

CONNECT_S = 5.0  # our choice: a control plane answers a SYN at once, or is down
# Reads only, and connects that never reached the server: a write that may have been heard is never sent again.
_RETRIES = urllib3.Retry(
    total=3,
    read=2,
    redirect=0,  # no credential follows a redirect
    backoff_factor=0.2,
    backoff_jitter=0.2,
    allowed_methods=("GET",),
    status_forcelist=(429, 503, 504),
    raise_on_status=False,
)


class Connection:
    """One server, one credential, one pool of connections; nothing global is touched."""

    def __init__(
        self,
        kubeconfig: Path | None,
        *,
        server: str = "",
        token: Secret | None = None,
        ca_pem: str = "",
        timeout_s: float = 10.0,
    ) -> None:
        self._timeout_s = timeout_s
        self._kubeconfig, self._ca_pem = kubeconfig, ca_pem
        self._folder = tempfile.TemporaryDirectory(prefix="rackmint-ca-") if ca_pem else None
        if kubeconfig is not None:
            self._api = _from_file(kubeconfig)
        else:
            self._api = self._from_parts(server, token, ca_pem)
        self.server: str = self._api.configuration.host
        self.core = client.CoreV1Api(self._api)
        self.coordination = client.CoordinationV1Api(self._api)
        self.version = client.VersionApi(self._api)

    def close(self) -> None:
        """Give back the connections and forget the CA file."""
        self._api.close()  # type: ignore[no-untyped-call]
        self._api.rest_client.pool_manager.clear()
        if self._folder:
            self._folder.cleanup()

    def _from_parts(self, server: str, token: Secret | None, ca_pem: str) -> client.ApiClient:
        if not server:
            raise BadSettings("fleet: neither a kubeconfig nor a server is set. Set [fleet] kubeconfig")
        settings = client.Configuration()
        settings.host = server
        settings.retries = _RETRIES
        if token is not None:
            REDACTOR.learn(token.reveal())
            settings.api_key["authorization"] = f"Bearer {token.reveal()}"
        if self._folder:
            path = Path(self._folder.name) / "ca.pem"
            path.write_text(ca_pem)
            settings.ssl_ca_cert = str(path)
        return client.ApiClient(settings)

    @property
    def ca_pem(self) -> str:
        """The root we trust, from our own settings; empty when the system's roots are used."""
        return _ca_of(self._kubeconfig) if self._kubeconfig else self._ca_pem

    def call(self, node: str, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
        """One request; its JSON answer. Raises `BookUnreachable`, `LoginRefused` or `ChangeRefused`."""
        try:
            answer = method(
                *arguments,
                **options,
                _preload_content=False,
                _request_timeout=(min(CONNECT_S, self._timeout_s), self._timeout_s),
            )
            body: dict[str, Any] = json.loads(answer.data)
        except ApiException as error:
            raise self._translated(node, what, error) from error
        except (urllib3.exceptions.HTTPError, OpenApiException, OSError, ValueError) as error:
            raise BookUnreachable(f"Kubernetes {self.server}: {what}: {_last_line(error)}") from error
        return body

    def find(self, node: str, what: str, method: Callable[..., Any], *arguments: Any) -> dict[str, Any] | None:
        """As `call`, with None for what is not there."""
        try:
            return self.call(node, what, method, *arguments)
        except ChangeRefused as error:
            if _status_of(error) == 404:
                return None
            raise

    def _translated(self, node: str, what: str, error: ApiException) -> Exception:
        said = said_by(error)
        if error.status == 401:
            return LoginRefused(node, what, said, f"Check the credential for {self.server}.")
        if error.status in (429, 500, 502, 503, 504) and not _is_budget(error):
            return BookUnreachable(f"Kubernetes {self.server}: {what}: HTTP {error.status} {said}")
        return ChangeRefused(node, what, said)


def refused_as(error: ChangeRefused, *codes: int) -> bool:
    """Whether the server said no with one of these codes."""
    return _status_of(error) in codes


def said_by(error: ApiException) -> str:
    """The server's own sentence."""
    try:
        return str(json.loads(error.body or "{}")["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.status} {error.reason or ''}".strip()


def _status_of(error: ChangeRefused) -> int | None:
    cause = error.__cause__
    return cause.status if isinstance(cause, ApiException) else None


def _is_budget(error: ApiException) -> bool:
    """An eviction that a disruption budget forbids is a no, not an outage."""
    return error.status == 429 and "DisruptionBudget" in str(error.body)


def _from_file(path: Path) -> client.ApiClient:
    settings = client.Configuration()
    settings.retries = _RETRIES
    try:
        api: client.ApiClient = new_client_from_config(  # type: ignore[no-untyped-call]
            config_file=str(path), client_configuration=settings, persist_config=False
        )
    except (ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise BadSettings(
            f"kubeconfig {path}: {_last_line(error)}. Mend the file, or point [fleet] elsewhere"
        ) from error
    _learn(api.configuration)
    return api


def _learn(settings: client.Configuration) -> None:
    """What the file holds of credentials is written nowhere else."""
    for credential in (*settings.api_key.values(), settings.password):
        if credential:
            REDACTOR.learn(credential.removeprefix("Bearer "))
    if settings.key_file:
        REDACTOR.learn(Path(settings.key_file).read_text())


def _ca_of(path: Path) -> str:
    """The authority of the current context's cluster; the client drops it when the server speaks plain HTTP."""
    config = yaml.safe_load(path.read_text())
    contexts = {entry["name"]: entry["context"] for entry in config["contexts"]}
    clusters = {entry["name"]: entry["cluster"] for entry in config["clusters"]}
    cluster = clusters[contexts[config["current-context"]]["cluster"]]
    if "certificate-authority-data" in cluster:
        return base64.b64decode(cluster["certificate-authority-data"]).decode()
    named = cluster.get("certificate-authority")
    return (path.parent / named).read_text() if named else ""


def _last_line(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    lines = str(reason).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
