"""dcgmi diag JSON of DCGM 2 to 4."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.dcgm import DiagWarning, parse_diag

Text = Callable[[str], str]


def test_dcgm_2_has_one_result_for_several_gpus(transcript: Text) -> None:
    """Each GPU of the list gets its result; a text warning is a warning."""
    run = parse_diag(transcript("dcgmi-diag/2.json"))
    assert [(None, "pass"), ("0", "pass"), ("1", "pass"), ("2", "fail")] == [(r.gpu, r.status) for r in run.results]
    assert (DiagWarning(text="A DBE was detected"),) == run.results[-1].warnings


def test_dcgm_3_has_severities_and_words_before_the_document(transcript: Text) -> None:
    """A skip keeps its warning and its severity; the plural key is read as well."""
    run = parse_diag(transcript("dcgmi-diag/3.3.json"))
    assert ("3.3.5", "550.00.01") == (run.version, run.driver)
    assert ("skip", (DiagWarning(text="ECC is disabled", error_id=55, severity=2),)) == (
        run.results[0].status,
        run.results[0].warnings,
    )
    assert "persistence mode is off" == run.results[2].warnings[0].text


def test_dcgm_4_has_entities_and_another_root(transcript: Text) -> None:
    """GPU 3 passes; a CPU entity is no GPU."""
    run = parse_diag(transcript("dcgmi-diag/4.json"))
    assert ("4.2.0", "570.00.01") == (run.version, run.driver)
    assert [("3", "pass"), (None, "skip")] == [(r.gpu, r.status) for r in run.results]


def test_a_run_that_failed_measured_nothing(transcript: Text) -> None:
    """The error is kept and no result is made up."""
    run = parse_diag(transcript("dcgmi-diag/runtime-error.json"))
    assert ("The hostengine is not running", ()) == (run.runtime_error, run.results)


@pytest.mark.parametrize(
    "text", ["", "Error: unable to connect", "{}", '{"DCGM Diagnostic":{}}', '{"DCGM Diagnostic":']
)
def test_other_text_is_refused(text: str) -> None:
    """No document, another root, no result, cut off."""
    with pytest.raises(ValueError, match="expected"):
        parse_diag(text)
