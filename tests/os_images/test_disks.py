"""Which disk is written: the rule's one, and never somebody else's data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from os_images.agent import DiskFacts
from os_images.disks import DiskRefused, choose_disk

GB = 10**9
BOOT = DiskFacts("pci-1-nvme-1", 960 * GB, wwn="eui.1", model="M.2 960G")
DATA = (DiskFacts("pci-2-nvme-1", 3840 * GB, wwn="eui.2"), DiskFacts("pci-3-nvme-1", 3840 * GB, wwn="eui.3"))
RULE = {"min_disk_bytes": 200 * GB}


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        ({}, "pci-1-nvme-1"),
        ({"by_path": "pci-3-nvme-1"}, "pci-3-nvme-1"),
        ({"wwn": "eui.2"}, "pci-2-nvme-1"),
        ({"model": "M.2 960G"}, "pci-1-nvme-1"),
        ({"size_bytes_at_most": 1000 * GB}, "pci-1-nvme-1"),
    ],
)
def test_the_rule_means_one_disk(rule: dict[str, Any], chosen: str) -> None:
    """By path, WWN, model or size; with no rule the smallest that holds the image."""
    assert chosen == choose_disk((*DATA, BOOT), {**RULE, **rule}).by_path


@pytest.mark.parametrize(
    ("disks", "rule", "said"),
    [
        ((), {}, "no disk at all"),
        (DATA, {}, "2 disks fit alike"),
        (DATA, {"size_bytes_at_most": 1000 * GB}, "no disk fits the rule size_bytes_at_most 1000000000000"),
        ((BOOT,), {"by_path": "pci-9"}, "no disk fits the rule by_path pci-9"),
        ((BOOT,), {"min_disk_bytes": 1000 * GB}, "too small for 1000000000000 bytes"),
        ((DiskFacts("d", 960 * GB, signature="zfs_member"),), {}, "carries zfs_member"),
        ((DiskFacts("d", 960 * GB, signature="gpt"),), {}, "carries gpt"),
    ],
)
def test_what_is_refused_is_explained(disks: tuple[DiskFacts, ...], rule: dict[str, Any], said: str) -> None:
    """None, several, too small, or foreign: the sentence says which and what was seen."""
    with pytest.raises(DiskRefused, match=said):
        choose_disk(disks, {**RULE, **rule})


def test_our_own_image_is_no_foreign_data() -> None:
    """A reinstalled node needs no approval to wipe; whether it may be reinstalled is asked elsewhere."""
    ours = DiskFacts("d", 960 * GB, signature="rackmint image")
    assert ours == choose_disk((ours,), RULE)


DISKS = st.lists(
    st.builds(
        DiskFacts,
        by_path=st.sampled_from("abcdef"),
        size_bytes=st.integers(0, 4000).map(lambda n: n * GB),
        signature=st.sampled_from(["", "", "LVM2_member", "rackmint image"]),
    ),
    max_size=6,
    unique_by=lambda disk: disk.by_path,
)


@given(disks=DISKS, order=st.randoms())
def test_the_order_of_disks_means_nothing(disks: list[DiskFacts], order: Any) -> None:
    """Never the first disk: shuffled, the answer is the same, and it never is foreign or too small."""

    def outcome(seen: list[DiskFacts]) -> str:
        try:
            return choose_disk(tuple(seen), RULE).by_path
        except DiskRefused:
            return "refused"

    shuffled = disks[:]
    order.shuffle(shuffled)
    assert outcome(disks) == outcome(shuffled)
    chosen = [d for d in disks if d.by_path == outcome(disks)]
    assert all(d.size_bytes >= RULE["min_disk_bytes"] and d.signature in {"", "rackmint image"} for d in chosen)
