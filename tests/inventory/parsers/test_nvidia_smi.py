"""nvidia-smi's XML in the layouts of drivers 470 to 595, and what stands there instead of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inventory.parsers.nvidia_smi import lost_gpus, parse_query

Text = Callable[[str], str]


def test_a_570_document_tells_every_fact(transcript: Text) -> None:
    """Slot from the platform info, ECC summed over its three addends, the link's ceiling apart from its speed now."""
    log = parse_query(transcript("nvidia-smi-xml/h100-570.xml"))
    gpu = log.gpus[0]
    assert ("570.00.01", "12.8", 2, ()) == (log.driver, log.cuda, log.attached, log.unread)
    assert ("7", "1000000000011", "aaaaaaaa-0000-4000-8000-000000000011") == (gpu.slot, gpu.serial, gpu.uuid)
    assert ("0000:1a:00.0", "10de:2330", 81559) == (gpu.pci_address, gpu.pci_device_id, gpu.memory_mib)
    assert (7, 3, 1) == (gpu.ecc_correctable, gpu.ecc_uncorrectable, gpu.ecc_volatile_uncorrectable)
    assert (True, False, 1, False) == (
        gpu.remap_pending,
        gpu.remap_failed,
        gpu.remapped_rows_uncorrectable,
        gpu.sram_threshold_exceeded,
    )
    assert (1, 5, 16, 2) == (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_width, gpu.pcie_replays)
    assert (71.5, 700.0, 700.0) == (gpu.power_w, gpu.power_limit_w, gpu.power_limit_default_w)
    assert (("gpu_idle",), "Completed", True, False) == (
        gpu.throttle_reasons,
        gpu.fabric_state,
        gpu.persistence,
        gpu.mig_enabled,
    )


def test_absent_elements_are_unknown_and_never_zero(transcript: Text) -> None:
    """The second GPU of the document lacks counters, remapping, power and reasons: all None."""
    gpu = parse_query(transcript("nvidia-smi-xml/h100-570.xml")).gpus[1]
    unknown = (
        gpu.ecc_uncorrectable,
        gpu.remap_pending,
        gpu.power_w,
        gpu.throttle_reasons,
        gpu.pcie_width,
        gpu.firmware,
    )
    assert (None,) * 6 == unknown
    assert (False, True, "In Progress") == (gpu.ecc_enabled, gpu.ecc_pending_enabled, gpu.fabric_state)


def test_a_470_document_has_double_bits_old_reasons_and_old_power(transcript: Text) -> None:
    """Volta: totals of single and double bits, throttle reasons under their old name, the enforced limit."""
    gpu = parse_query(transcript("nvidia-smi-xml/v100-470.xml")).gpus[0]
    assert (12, 2, 0) == (gpu.ecc_correctable, gpu.ecc_uncorrectable, gpu.ecc_volatile_uncorrectable)
    assert ("hw_slowdown", "hw_power_brake_slowdown") == gpu.throttle_reasons
    assert (44.1, 250.0, "3") == (gpu.power_w, gpu.power_limit_w, gpu.slot)
    assert (None, None) == (gpu.remap_pending, gpu.mig_enabled)


def test_words_for_unknown_are_none_and_a_known_error_outweighs_them(transcript: Text) -> None:
    """`N/A`, `ERR!`, `[GPU is lost]`: None; but seven errors are not unknown because a sibling is."""
    log = parse_query(transcript("nvidia-smi-xml/h100-mig-550.xml"))
    gpu = log.gpus[0]
    assert (None, None, None, None) == (gpu.serial, gpu.firmware, gpu.memory_mib, gpu.pcie_replays)
    assert (None, 7) == (gpu.ecc_volatile_uncorrectable, gpu.ecc_uncorrectable)
    assert (None, None, True) == (gpu.remap_pending, gpu.throttle_reasons, gpu.mig_enabled)
    assert ("partial document: attached_gpus says 8, 1 told about",) == log.unread


def test_a_595_document_splits_the_power_draw_and_names_a_fabric_error(transcript: Text) -> None:
    """The average stands for the draw; a completed fabric with an error is not completed."""
    gpu = parse_query(transcript("nvidia-smi-xml/b200-595.xml")).gpus[0]
    assert (142.31, "Completed (NVML_ERROR_TIMEOUT)") == (gpu.power_w, gpu.fabric_state)
    assert ("sw_power_cap",) == gpu.throttle_reasons


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "CA 'mlx5_0'\n\tCA type: MT4129\n",
        "<nvidia_smi_log><gpu></nvidia_smi_log>",
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><nvidia_smi_log><!ENTITY b "b"></nvidia_smi_log>',
    ],
)
def test_anything_else_says_what_was_expected_and_met(text: str) -> None:
    """Errors instead of XML, other tools and broken markup are refused with the line that was met."""
    with pytest.raises(ValueError, match=r"expected .*(met|cut off)"):
        parse_query(text)


def test_a_document_cut_anywhere_is_refused(transcript: Text) -> None:
    """No beginning of a document passes for a whole one."""
    lines = transcript("nvidia-smi-xml/h100-570.xml").splitlines(keepends=True)
    for kept in range(len(lines)):
        with pytest.raises(ValueError, match="expected"):
            parse_query("".join(lines[:kept]))


def test_no_devices_is_an_answer_of_none() -> None:
    """The sentence means zero GPUs, and says so."""
    log = parse_query("No devices were found\n")
    assert (0, (), ("No devices were found",)) == (log.attached, log.gpus, log.unread)


def test_a_lost_gpu_is_named_before_the_document_and_on_the_other_stream(transcript: Text) -> None:
    """The list that follows the complaint is read, and the complaint is kept."""
    said = "Unable to determine the device handle for GPU 0000:BA:80.0: Unknown Error\n"
    log = parse_query(said + transcript("nvidia-smi-xml/v100-470.xml"))
    assert (1, (said.strip(),)) == (len(log.gpus), log.unread)
    forms = "Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error\nall is well\n"
    assert ("Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error",) == lost_gpus(forms)


def test_dressing_around_lines_is_taken_off(transcript: Text) -> None:
    """Carriage returns, colours and launcher labels change nothing."""
    plain = transcript("nvidia-smi-xml/h100-570.xml")
    dressed = "".join(f"0: \x1b[0m{line}\r\n" for line in plain.splitlines())
    assert parse_query(plain) == parse_query(dressed)


@pytest.mark.shared
def test_recorded_documents_are_read_as_their_notes_say(sample: Text) -> None:
    """8 H100 of which the host offers Gen4, a MIG document that is partial, a T4 at x8."""
    h100 = parse_query(sample("nvsmi_8xH100_570_vm_gen4link.xml"))
    assert ["4", "2", "1", "3", "8", "6", "5", "7"] == [gpu.slot for gpu in h100.gpus]
    assert {(4, "Completed", True, False)} == {
        (g.pcie_generation_max, g.fabric_state, g.ecc_enabled, g.persistence) for g in h100.gpus
    }
    assert [3, 0, 0, 0, 0, 0, 0, 3] == [gpu.pcie_replays for gpu in h100.gpus]
    mig = parse_query(sample("nvsmi_a100-sxm4-v12.xml"))
    assert (4, 1, True, None) == (mig.attached, len(mig.gpus), mig.gpus[0].mig_enabled, mig.gpus[0].remap_pending)
    assert ("partial document: attached_gpus says 4, 1 told about",) == mig.unread
    t4 = parse_query(sample("nvsmi_tesla-t4.xml"))
    assert (8, 16, None) == (t4.gpus[0].pcie_width, t4.gpus[0].pcie_width_max, t4.gpus[0].remap_pending)
