"""What each Xid and SXid means for a node that is being accepted: data, after NVIDIA's catalogue.

`RESTART` codes are raised by software as well as by hardware: once is a failed run, again on a known-good load is the
GPU. `FOLLOWS` codes come after another one and are never the root.
"""

from __future__ import annotations

from dataclasses import dataclass

_CATALOGUE = "docs.nvidia.com/deploy/xid-errors, NVIDIA's Xid catalogue"


@dataclass(frozen=True, slots=True)
class XidRow:
    """Some codes, what they mean and what to do."""

    codes: frozenset[int]
    means: str
    remedy: str
    bad: bool = True
    follows: bool = False  # comes after another one


def _codes(*parts: int | range) -> frozenset[int]:
    return frozenset(code for part in parts for code in (part if isinstance(part, range) else (part,)))


# Source of the grouping: _CATALOGUE; the first row that has the code counts.
XID_ROWS: tuple[XidRow, ...] = (
    XidRow(_codes(79), "the GPU has fallen off the bus", "Power-cycle cold, reseat, swap slots, then replace the GPU"),
    XidRow(
        _codes(48, 171, 172),
        "uncorrectable ECC error",
        "Look at row remapping, reset the GPU, run the memory diagnostic",
    ),
    XidRow(_codes(64), "row remapping failed", "Reset the GPU; if it comes back, replace it"),
    XidRow(_codes(63), "a row remapping was recorded", "Reset the GPU so that it takes effect, then test again"),
    XidRow(_codes(95), "uncontained ECC error", "Reset the GPU, run the memory diagnostic"),
    XidRow(_codes(94), "contained ECC error", "Run the memory diagnostic; replace the GPU if it comes back"),
    XidRow(_codes(92), "high rate of correctable ECC errors", "Run the memory diagnostic"),
    XidRow(_codes(54), "auxiliary power is missing", "Check the GPU's power cable"),
    XidRow(
        _codes(74), "NVLink error", "Check Fabric Manager and the GPU at the other end, reset; replace if it comes back"
    ),
    XidRow(
        _codes(range(144, 151)), "NVLink 5 error", "Look at fatal and sub-code; reset the GPU, then the tray's cables"
    ),
    XidRow(
        _codes(119, 120), "GSP firmware timeout", "Reset the GPU or the node; inspect the hardware if it comes back"
    ),
    XidRow(
        _codes(46, 62, 109, 110, 136, 140, 143, 155, 156, 158, 167, 168, 169),
        "the GPU needs a reset",
        "Reset the GPU, test again; the second time it is the hardware",
    ),
    XidRow(_codes(154), "the driver asks for a recovery action", "Do what its last line asks for"),
    XidRow(_codes(165), "power smoothing lifetime used up", "Replace the GPU: a new part has not used it up"),
    XidRow(_codes(45), "pre-emptive clean-up", "Look at the Xid before it", follows=True),
    XidRow(
        _codes(37, 38, 43, 44, 66, 67, 106, 107, 121, 137, 141, 151, 152, 153, 157, 160, 161, 162, 163, 164),
        "informational",
        "Nothing, unless it comes alone and again",
        bad=False,
    ),
    XidRow(
        _codes(
            13,
            31,
            32,
            range(39, 42),
            60,
            range(68, 73),
            range(75, 79),
            80,
            range(82, 87),
            88,
            89,
            range(96, 106),
            range(126, 136),
            139,
        ),
        "an engine or memory-management exception, of software or hardware",
        "Run the test again; on the same GPU again it is the hardware",
    ),
)

_UNKNOWN = XidRow(frozenset(), "a code that is not in our table", "Look it up in NVIDIA's catalogue")

# NVSwitch codes that are benign or not fatal. Source: NVIDIA Fabric Manager user guide, SXid tables.
BENIGN_SXIDS = _codes(11004, 11012, 11021, 11022, 11023, 12028, 19084, 20001, 20009, 20012, 22013, 24001, 24002, 24003)

XID_SOURCE = _CATALOGUE


def xid_row(code: int) -> XidRow:
    """What a code means; an unknown one is bad until somebody has looked it up."""
    return next((row for row in XID_ROWS if code in row.codes), _UNKNOWN)
