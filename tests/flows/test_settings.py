"""A site's settings: one file, the environment over it, and a sentence for whatever is wrong in either."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.settings import Settings, load_settings
from inventory.errors import BadSettings
from inventory.secrets import resolve


def written(folder: Path, text: str) -> str:
    """A settings file with this text."""
    file = folder / "site.toml"
    file.write_text(text)
    return str(file)


def refusal(folder: Path, text: str, environment: dict[str, str] | None = None) -> str:
    """What is said of bad settings, without the file's own folder."""
    file = written(folder, text)
    with pytest.raises(BadSettings) as raised:
        load_settings(file, environment or {})
    return str(raised.value).replace(file, "site.toml")


def test_one_line_is_enough(tmp_path: Path) -> None:
    """A site with a name has everything else by default, under its state folder."""
    found = load_settings(written(tmp_path, 'site = "x"\nstate = "/var/lib/rackmint"\n'), {})
    assert "sqlite:////var/lib/rackmint/ledger.db" == found.ledger_url
    assert "/var/lib/rackmint/evidence" == found.evidence_url
    assert Path("/var/lib/rackmint/signing-key.pem") == found.signing_key_file


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """Plain keys and keys of sections, numbers as numbers; what is not ours is not looked at."""
    file = written(tmp_path, 'site = "x"\n[pace]\npoll_s = 5\n')
    found = load_settings(file, {"RACKMINT_PACE__POLL_S": "0.5", "RACKMINT_TRACE": "stage", "RACKMINT_FOO": "1"})
    assert (0.5, "stage") == (found.pace.poll_s, found.trace)


def test_the_file_is_named_by_option_then_environment_then_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--settings` wins over `RACKMINT_SETTINGS`, which wins over ./rackmint.toml."""
    file = written(tmp_path, 'site = "named"\n')
    (tmp_path / "rackmint.toml").write_text('site = "here"\n')
    monkeypatch.chdir(tmp_path)
    assert "here" == load_settings("", {}).site
    assert "named" == load_settings("", {"RACKMINT_SETTINGS": file}).site
    assert "named" == load_settings(file, {"RACKMINT_SETTINGS": "rackmint.toml"}).site


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state = 'x'", "site.toml: site is missing. Set it"),
        ("site = 'x'\nsitee = 1", "site.toml: sitee: no such setting. Did you mean site?"),
        ("site = 'x'\n[netbox]\nurll = 1", "site.toml: netbox.urll: no such setting. Did you mean url?"),
        ("site = 'x'\n[fleet]\nzzz = 1", "site.toml: fleet.zzz: no such setting. Known are kubeconfig"),
        ("site = 'x'\n[limits]\nnodes_parallel = 0", "site.toml: limits.nodes_parallel: Input should be greater than"
         " or equal to 1. Mend the setting"),
        ("site = ", "site.toml: not valid TOML: Invalid value (at end of document). Mend that line"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_key(tmp_path: Path, text: str, said: str) -> None:
    """File, key, what is wrong, what to do."""
    assert said == refusal(tmp_path, text)


def test_an_environment_key_of_no_section_is_refused(tmp_path: Path) -> None:
    """A misspelt variable is told like a misspelt line."""
    said = refusal(tmp_path, "site = 'x'", {"RACKMINT_PACES__POLL_S": "1"})
    assert "site.toml: paces: no such setting. Did you mean pace?" == said


@pytest.mark.parametrize("key", ["bmc.username", "bmc.password", "ssh.private_key", "netbox.token"])
def test_a_secret_written_into_the_settings_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    """The sentence names the key and how to refer to a secret, never what stands there."""
    section, _, name = key.partition(".")
    said = refusal(tmp_path, f"site = 'x'\n[{section}]\n{name} = 'hunter2'\n")
    assert said.startswith(f"site.toml: {key}: write where the secret is found, env:NAME or file:PATH")
    assert "hunter2" not in said


def test_a_secret_that_is_not_there_is_named_by_its_reference() -> None:
    """Environment and file alike."""
    for reference, said in (("env:NONE", "secret env:NONE: the environment has no NONE"),
                            ("file:/nowhere", "secret file:/nowhere: No such file or directory")):  # fmt: skip
        with pytest.raises(BadSettings, match=said):
            resolve(reference, {})


def test_a_folder_or_a_binary_is_no_settings_file(tmp_path: Path) -> None:
    """Whatever a path leads to, the answer is a sentence."""
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "binary.toml"):
        with pytest.raises(BadSettings, match=str(path)):
            load_settings(str(path), {})


def test_the_settings_shown_in_the_readme_are_good(tmp_path: Path) -> None:
    """What an operator copies from there is accepted."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    found = load_settings(written(tmp_path, readme.partition("```toml")[2].partition("```")[0]), {})
    assert ("fra1", "http://10.0.0.5:8480") == (found.site, found.images.url)


def test_defaults_hold_no_secret() -> None:
    """Every credential is a reference from the start."""
    settings = Settings(site="x")
    references = (settings.bmc.username, settings.bmc.password, settings.ssh.private_key, settings.netbox.token)
    assert all(reference.startswith("env:RACKMINT_") for reference in references)
