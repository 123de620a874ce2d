"""A site's settings: one TOML file, overridden by the environment. The only reader of `os.environ`."""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from inventory.errors import BadSettings
from inventory.model import Frozen
from inventory.redact import Redactor
from inventory.secrets import Secret, resolve

_PREFIX = "RACKMINT_"
_HELD: dict[str, str] = {}  # variables taken out of the environment, so that nobody we start inherits them


def _is_reference(text: str) -> str:
    if not text.startswith(("env:", "file:")):
        raise ValueError("write where the secret is found, env:NAME or file:PATH, never the secret itself")
    return text


Reference = Annotated[str, AfterValidator(_is_reference)]


class BmcSettings(Frozen):
    """How BMCs are logged in to."""

    username: Reference = "env:RACKMINT_BMC_USERNAME"
    password: Reference = "env:RACKMINT_BMC_PASSWORD"  # noqa: S105 (a reference)
    tls: str = "pin"  # pin = trust the certificate seen first; verify; or a CA file


class SshSettings(Frozen):
    """How nodes are logged in to, once our image is on them."""

    user: str = "root"
    private_key: Reference = "env:RACKMINT_SSH_KEY"


class NetBoxSettings(Frozen):
    """Where the book is."""

    url: str = ""
    token: Reference = "env:RACKMINT_NETBOX_TOKEN"  # noqa: S105 (a reference)
    ca: str = ""  # CA file; empty = the system's


class FleetSettings(Frozen):
    """Where the Kubernetes fleet is."""

    kubeconfig: str = ""


class ImageSettings(Frozen):
    """The image service: where it listens, how nodes and BMCs reach it, where its files lie."""

    listen: str = "127.0.0.1:8480"
    url: str = "http://127.0.0.1:8480"
    folder: str = "images"


class PaceSettings(Frozen):
    """How fast things are looked at. `scale` is 1 on real machines; the lab's clock runs faster."""

    poll_s: float = Field(default=5.0, gt=0)
    scale: float = Field(default=1.0, gt=0)
    lease_s: float = Field(default=90.0, ge=2)


class LimitSettings(Frozen):
    """How much at once, and when to stop starting more."""

    nodes_parallel: int = Field(default=72, ge=1)
    image_parallel: int = Field(default=16, ge=1)
    breaker_nodes: int = Field(default=3, ge=2)  # this many nodes failing one stage the same way open the breaker


class Settings(Frozen):
    """Everything about one site that is not about a machine model."""

    site: str
    state: Path = Path("state")  # ledger, evidence, reports, Prefect's own files
    ledger: str = ""  # SQLAlchemy URL; empty = SQLite under `state`
    evidence: str = ""  # folder or fsspec URL; empty = under `state`
    signing_key: str = ""  # Ed25519 key file; empty = under `state`
    classes: str = ""  # folders of the site's own files
    profiles: str = ""
    limits_packs: str = ""
    trace: str = Field(default="node", pattern="^(node|stage)$")
    bmc: BmcSettings = BmcSettings()
    ssh: SshSettings = SshSettings()
    netbox: NetBoxSettings = NetBoxSettings()
    fleet: FleetSettings = FleetSettings()
    images: ImageSettings = ImageSettings()
    pace: PaceSettings = PaceSettings()
    limits: LimitSettings = LimitSettings()
    file: str = ""  # where these settings were read

    @property
    def ledger_url(self) -> str:
        """The ledger's SQLAlchemy URL."""
        return self.ledger or f"sqlite:///{self.state.resolve() / 'ledger.db'}"

    @property
    def evidence_url(self) -> str:
        """Where raw answers are kept."""
        return self.evidence or str(self.state.resolve() / "evidence")

    @property
    def signing_key_file(self) -> Path:
        """The Ed25519 key certificates are signed with."""
        return Path(self.signing_key) if self.signing_key else self.state / "signing-key.pem"

    @property
    def secret_variables(self) -> frozenset[str]:
        """Environment variables that hold secrets: nobody we start needs to inherit them."""
        references = (self.bmc.password, self.ssh.private_key, self.netbox.token)
        return frozenset(name for kind, _, name in (r.partition(":") for r in references) if kind == "env")

    def value(self, reference: str) -> str:
        """What stands behind a reference that is no secret, such as a user name; raises `BadSettings`."""
        return resolve(reference, os.environ, Redactor()).reveal()

    def secret(self, reference: str) -> Secret:
        """The value behind a reference, fetched now; raises `BadSettings` naming the reference."""
        return resolve(reference, ChainMap(_HELD, os.environ))


# Keys outside any section that the environment may set; `file` is where the settings were read.
_PLAIN = frozenset(Settings.model_fields) - {"file", "bmc", "ssh", "netbox", "fleet", "images", "pace", "limits"}


def load_settings(file: str = "", environment: Mapping[str, str] | None = None) -> Settings:
    """Read `file`, `$RACKMINT_SETTINGS` or `./rackmint.toml`, then `RACKMINT_[SECTION__]KEY` from the environment.

    Raises `BadSettings` naming the file, the key and what is wrong with it.
    """
    env = os.environ if environment is None else environment
    path = Path(file or env.get("RACKMINT_SETTINGS", "") or "rackmint.toml")
    data = _read(path)
    for name, value in env.items():
        _override(data, name, value)
    try:
        return Settings.model_validate({**data, "file": str(path.resolve())})
    except ValidationError as error:
        raise BadSettings(f"{path}: {_said(error)}") from error


def _said(error: ValidationError) -> str:
    """The first thing wrong with the settings, and what to do about it; never the value, which may be a secret."""
    first = error.errors(include_input=False)[0]
    *sections, key = (str(part) for part in first["loc"])
    where = ".".join([*sections, key])
    known = _keys_of(*sections)
    if first["type"] == "missing":
        return f"{where} is missing. Set it"
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, known, n=1)
        return f"{where}: no such setting. {f'Did you mean {near[0]}?' if near else 'Known are ' + ', '.join(known)}"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}. Mend the setting"


def _keys_of(section: str = "", *_: str) -> list[str]:
    field = Settings.model_fields.get(section)
    inside = field.annotation if field else Settings
    return sorted(set(getattr(inside, "model_fields", {})) - {"file"})


def _override(data: dict[str, Any], name: str, value: str) -> None:
    """`RACKMINT_TRACE` is the key `trace`, `RACKMINT_PACE__POLL_S` is `poll_s` of `[pace]`; others are not ours."""
    if not name.startswith(_PREFIX):
        return
    section, _, key = name.removeprefix(_PREFIX).lower().partition("__")
    if key and isinstance(data.setdefault(section, {}), dict):
        data[section][key] = value
    elif section in _PLAIN:
        data[section] = value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise BadSettings(
            f"{path}: no such settings file. Name one with --settings or RACKMINT_SETTINGS, "
            "or try the simulated rack: `rackmint lab up`"
        ) from error
    except OSError as error:
        raise BadSettings(f"{path}: {error.strerror}. Check its permissions") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: not valid TOML: {error}. Mend that line") from error


def ship_prefect_settings(state: Path) -> None:
    """Prefect's settings as measured to survive outages and kills; what the operator set himself is left alone.

    Must be called before Prefect is imported.
    """
    os.environ.update(prefect_environment(state))


def prefect_environment(state: Path, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """The environment with Prefect's shipped settings: what a server of our own is started with."""
    shipped = {
        "PREFECT_HOME": str(state.resolve() / "prefect"),
        # Leases in server memory leak their slots when the server restarts.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504",
        "PREFECT_CLIENT_MAX_RETRIES": "15",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "3d",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",  # what goes wrong is told once, by us
        "PREFECT_CLI_PROMPT": "false",
    }
    return {**shipped, **{name: value for name, value in os.environ.items() if name not in without}}


def prefect_api_url() -> str:
    """The API an operator chose by `PREFECT_API_URL`; empty when none."""
    return os.environ.get("PREFECT_API_URL", "")


def use_prefect_api(url: str) -> None:
    """Point this process, and what it starts, at one Prefect API."""
    os.environ["PREFECT_API_URL"] = url


def use_embedded_prefect(without: frozenset[str]) -> None:
    """Let Prefect start a server of its own, which inherits our environment: the secrets in it are kept aside first."""
    for name in without & os.environ.keys():
        _HELD[name] = os.environ.pop(name)
    os.environ.pop("PREFECT_API_URL", None)
    prefect: Any = sys.modules.get("prefect.context")
    if prefect is not None:  # it was imported already, and has read its settings
        prefect.GLOBAL_SETTINGS_CONTEXT = prefect.root_settings_context()
