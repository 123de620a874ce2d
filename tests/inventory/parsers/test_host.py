"""The operating system's own words: release, versions, image."""

from __future__ import annotations

import pytest

from inventory.parsers import host

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("command", "said", "expected"),
    [
        (host.OS_RELEASE, 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\n', "ubuntu 24.04"),
        (host.OS_RELEASE, "ID=arch\n", "arch"),
        (host.KERNEL, "6.8.0-45-generic\n", "6.8.0-45-generic"),
        (host.BOOT_ID, "6B2E7C1E-6A7E-4B9C-8B73-0D1B7E3F7C11\n", "6b2e7c1e-6a7e-4b9c-8b73-0d1b7e3f7c11"),
        (host.SERIAL, "CH0001\n", "CH0001"),
        (host.SERIAL, "To be filled by O.E.M.\n", None),
        (host.CUDA, '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}', "12.8.1"),
        (host.CUDA, "", None),
        (host.NCCL, "2.26.2-1+cuda12.8", "2.26.2"),
        (host.FABRIC_MANAGER, "Fabric Manager version is : 570.124.06\n", "570.124.06"),
        (host.FABRIC_MANAGER, "", None),
        (host.FABRIC_MANAGER_ACTIVE, "active\n", True),
        (host.FABRIC_MANAGER_ACTIVE, "inactive\n", False),
        (host.FABRIC_MANAGER_ACTIVE, "unknown\n", None),
        (host.CONTAINERD, "containerd containerd.io 1.7.25 bcc810d6b9066471b0b6fa75f557a15a1cbf31bb\n", "1.7.25"),
        (host.CONTAINERD, "containerd github.com/containerd/containerd/v2 v2.0.4 abc\n", "2.0.4"),
        (host.KUBELET, "Kubernetes v1.34.2\n", "1.34.2"),
        (host.KUBEADM, "v1.34.2\n", "1.34.2"),
        (host.DCGM, "\nVersion : 4.1.1\nBuild ID : 10\n", "4.1.1"),
        (
            host.IMAGE,
            f'{{"name": "lab", "digest": "sha256:{DIGEST.upper()}"}}',
            host.LaidImage(name="lab", digest=DIGEST),
        ),
        (host.IMAGE, '{"name": "lab", "digest": "short"}', host.LaidImage(name="lab")),
        (host.IMAGE, "", host.LaidImage()),
    ],
)
def test_answers_are_read(command: object, said: str, expected: object) -> None:
    """Each tool's form, and nothing where there is nothing."""
    assert expected == command.parse(said)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (host.OS_RELEASE, ""),
        (host.OS_RELEASE, "cat: no such file"),
        (host.KERNEL, "Linux"),
        (host.BOOT_ID, "not a uuid"),
        (host.MACHINE_UUID, "Not Settable"),
        (host.CUDA, "{}"),
        (host.CUDA, '{"cuda":'),
        (host.NCCL, "dpkg-query: no packages found"),
        (host.KUBELET, "command not found"),
        (host.IMAGE, "[]"),
        (host.IMAGE, '{"name"'),
    ],
)
def test_words_that_are_no_answer_are_refused(command: object, said: str) -> None:
    """With what was expected in the message."""
    with pytest.raises(ValueError, match="expected"):
        command.parse(said)  # type: ignore[attr-defined]
