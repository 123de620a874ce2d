"""`dcgmi diag -j`, DCGM 2 to 4: one result per test and GPU, with its warnings and their severity.

2.x has one result for several GPUs and text warnings; 3.3 one per GPU and lists of warnings; 4.x another root and
entities. Words may precede the document. A "Skip" with a warning that asks to isolate the GPU is not a pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from inventory.model import Frozen
from inventory.parsers.words import met

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")  # 4.x, 2.x and 3.x


class DiagWarning(Frozen):
    """One complaint; severity as DCGM numbers it from 3.2 on (2 isolate, 4 triage, 6 reset)."""

    text: str
    error_id: int | None = None
    severity: int | None = None


class DiagResult(Frozen):
    """One test on one GPU, or on the node where `gpu` is None."""

    category: str
    test: str
    gpu: str | None
    status: str  # pass | fail | warn | skip | not run …, lower case
    warnings: tuple[DiagWarning, ...] = ()


class DiagRun(Frozen):
    """One run of the diagnostic."""

    version: str | None = None
    driver: str | None = None
    results: tuple[DiagResult, ...] = ()
    runtime_error: str = ""  # the run itself failed: nothing was measured


def parse_diag(text: str) -> DiagRun:
    """All results; raises `ValueError` when there is no whole document or no result and no error in it."""
    document = _document(text)
    root = next((document[name] for name in _ROOTS if isinstance(document.get(name), dict)), None)
    if root is None:
        raise ValueError(f"expected {' or '.join(_ROOTS)}, met keys {', '.join(map(str, document))[:120]}")
    metadata = {**document, **_dict(document.get("metadata")), **_dict(root.get("metadata")), **root}
    results = tuple(_results(root))
    error = str(root.get("runtime_error") or document.get("runtime_error") or "")
    if not results and not error:
        raise ValueError("expected test_categories with results, met none")
    return DiagRun(
        version=_text(metadata.get("version") or metadata.get("Version")),
        driver=_text(metadata.get("Driver Version Detected")),
        results=results,
        runtime_error=error,
    )


def _document(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        raise ValueError(f"expected a JSON document, {met(text)}")
    try:
        document, _ = json.JSONDecoder().raw_decode(text[start:])
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a whole JSON document: {error.msg} at line {error.lineno}") from error
    return _dict(document)


def _results(root: dict[str, Any]) -> Iterator[DiagResult]:
    for category in _dicts(root.get("test_categories")):
        for test in _dicts(category.get("tests")):
            for result in _dicts(test.get("results")):
                for gpu in _gpus(result):
                    yield DiagResult(
                        category=str(category.get("category", "")),
                        test=str(test.get("name", "")),
                        gpu=gpu,
                        status=str(result.get("status", "no status")).lower(),
                        warnings=tuple(_warnings(result.get("warnings"))),
                    )


def _gpus(result: dict[str, Any]) -> list[str | None]:
    if "entity_id" in result:
        return [str(result["entity_id"])] if str(result.get("entity_group", "GPU")).upper() == "GPU" else [None]
    if "gpu_id" in result:
        return [str(result["gpu_id"])]
    listed = [part.strip() for part in str(result.get("gpu_ids", "")).split(",") if part.strip()]
    return [*listed] or [None]


def _warnings(value: Any) -> Iterator[DiagWarning]:
    if isinstance(value, str) and value:
        yield DiagWarning(text=value)
    for row in _dicts(value):
        yield DiagWarning(
            text=str(row.get("warning") or row.get("warnings") or ""),  # 3.3.5 writes the plural in deployment tests
            error_id=_whole(row.get("error_id")),
            severity=_whole(row.get("error_severity")),
        )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
