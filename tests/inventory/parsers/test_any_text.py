"""Whatever a tool says, a reader answers with facts or with a `ValueError` that says what it expected."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from inventory.parsers import dcgm, ethernet, host, infiniband, kernel_log, nvidia_smi, nvlink, pci, topology

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts"
MUTATIONS = 250  # of each reader; ten thousand found nothing more (tried by hand)
ODD = ("N/A", "-1", "1e999", "9" * 30, "nan", "null", "[", "{}", "\x1b[31m", "\u0661", "\x00")

READERS: tuple[tuple[Callable[[str], object], str], ...] = (
    (nvidia_smi.parse_query, "nvidia-smi-xml"),
    (nvlink.parse_status, "nvlink"),
    (nvlink.parse_errors, "nvlink"),
    (topology.parse_topology, "topo"),
    (pci.parse_lspci, "lspci"),
    (infiniband.parse_sysfs, "rdma"),
    (infiniband.parse_ibstat, "rdma"),
    (infiniband.parse_sysfs_json, "ip"),
    (ethernet.parse_ip, "ip"),
    (kernel_log.parse_kernel_log, "kernel-log"),
    (dcgm.parse_diag, "dcgmi-diag"),
    (host.parse_image, "dcgmi-diag"),
    (host.parse_cuda, "dcgmi-diag"),
)


def _mutated(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randrange(40))
        lines = text.splitlines(keepends=True)
        chance.shuffle(lines)
        text = chance.choice(
            (
                text[:start] + text[end:],
                text[:start],
                text[:start] + chance.choice(ODD) + text[end:],
                text[:start] + text[start:end] * 3 + text[end:],
                "".join(lines),
            )
        )
    return text


@pytest.mark.parametrize(("read", "folder"), READERS, ids=lambda value: getattr(value, "__name__", value))
def test_any_change_of_an_answer_is_read_or_refused(read: Callable[[str], object], folder: str) -> None:
    """Cut, doubled, shuffled and odd text: never another exception, and never a complaint about our own types."""
    chance = random.Random(read.__name__)
    texts = [file.read_text() for file in sorted((TRANSCRIPTS / folder).iterdir())]
    for _ in range(MUTATIONS):
        try:
            read(_mutated(chance.choice(texts), chance))
        except ValueError as refused:
            assert not isinstance(refused, ValidationError), str(refused)
            assert "expected" in str(refused)
