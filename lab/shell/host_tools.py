"""The host itself: kernel, processors, memory modules, services, clock."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.node import fabric_ready, has_driver, memory
from lab.shell.reply import Reply, lines, refused, said
from lab.shell.tree import host_name

_SOCKETS = 2


def uname(call: Call) -> Reply:
    """`uname -r`, `-n`, `-m`, `-a`."""
    kernel, name = call.machine.software.get("kernel", ""), host_name(call.machine)
    parts = {"-r": kernel, "-n": name, "-m": "x86_64", "-a": f"Linux {name} {kernel} #1 SMP x86_64 GNU/Linux"}
    return said(parts.get(call.argv[1] if len(call.argv) > 1 else "", "Linux"))


def hostname(call: Call) -> Reply:
    """The node's own name."""
    return said(host_name(call.machine))


def nproc(call: Call) -> Reply:
    """Logical processors."""
    return said(str(_threads(call.machine)))


def _threads(machine: Machine) -> int:
    return machine.state.cpu_cores * _SOCKETS * (1 if _threading_off(machine) else 2)


def _threading_off(machine: Machine) -> bool:
    return str(machine.state.bios.get("HyperThreading", "Enable")).startswith("Disable")


def lscpu(call: Call) -> Reply:
    """`lscpu -J`, or plain."""
    state = call.state
    fields = {
        "Architecture": "x86_64",
        "CPU(s)": str(_threads(call.machine)),
        "Vendor ID": "GenuineIntel",
        "Model name": state.cpu_model,
        "Thread(s) per core": "1" if _threading_off(call.machine) else "2",
        "Core(s) per socket": str(state.cpu_cores),
        "Socket(s)": str(_SOCKETS),
        "NUMA node(s)": str(_SOCKETS),
    }
    if call.has("-J", "--json"):
        rows = [{"field": f"{name}:", "data": value} for name, value in fields.items()]
        return said(json.dumps({"lscpu": rows}, indent=3))
    return said(*(f"{name + ':':<21}{value}" for name, value in fields.items()))


# `dmidecode -s` keyword → attribute of the state.
_KEYWORDS = {
    "system-uuid": "uuid",
    "system-serial-number": "serial",
    "system-manufacturer": "manufacturer",
    "system-product-name": "model",
    "baseboard-serial-number": "board_serial",
    "chassis-serial-number": "serial",
    "bios-version": "bios_version",
}


def dmidecode(call: Call) -> Reply:
    """`-s KEYWORD` and `-t memory`."""
    if keyword := call.option("-s", "--string"):
        name = _KEYWORDS.get(keyword)
        return said(str(getattr(call.state, name))) if name else refused(f"Invalid string keyword: {keyword}", 2)
    rows = ["# dmidecode 3.5", "Getting SMBIOS data from sysfs.", "SMBIOS 3.5.0 present.", ""]
    for number, dimm in enumerate(call.state.dimms):
        rows += [f"Handle 0x{0x1100 + number:04X}, DMI type 17, 92 bytes", "Memory Device"]
        rows += [f"\t{name}: {value}" for name, value in _module(dimm.slot, dimm.serial, dimm.size_mib, dimm.present)]
        rows.append("")
    return said(*rows)


def _module(slot: str, serial: str, size_mib: int, present: bool) -> list[tuple[str, str]]:
    if not present:
        return [("Size", "No Module Installed"), ("Locator", slot), ("Serial Number", "Not Specified")]
    return [
        ("Size", f"{size_mib // 1024} GB"),
        ("Form Factor", "DIMM"),
        ("Locator", slot),
        ("Bank Locator", f"NODE {'01'[slot[5] > 'H']}"),
        ("Type", "DDR5"),
        ("Speed", "4800 MT/s"),
        ("Manufacturer", "Lab Memory"),
        ("Serial Number", serial),
        ("Part Number", "LM64G48"),
        ("Configured Memory Speed", "4800 MT/s"),
    ]


def systemctl(call: Call) -> Reply:
    """`is-active`, `is-system-running`, `start`, `stop`, `restart`, `enable`, `disable`."""
    words = [word for word in call.arguments if not word.startswith("-")]
    verb, units = (words[0] if words else ""), [word.removesuffix(".service") for word in words[1:]]
    if verb == "is-system-running":
        return said("running")
    if verb in {"is-active", "is-enabled"}:
        return _active(call.machine, units, call.has("-q", "--quiet"))
    if verb in {"reboot", "poweroff"}:
        return power(call)
    stopped = memory(call.machine).stopped
    if verb == "stop":
        stopped.update(units)
    elif verb in {"start", "restart"}:
        stopped.difference_update(units)
    return Reply()


def _active(machine: Machine, units: list[str], quiet: bool) -> Reply:
    words = [unit_state(machine, unit) for unit in units]
    code = 0 if all(word == "active" for word in words) else 3  # 3: systemctl's "not running"
    return Reply("" if quiet else lines(*words), exit=code)


def unit_state(machine: Machine, unit: str) -> str:
    """What systemd says of a service."""
    if unit in memory(machine).stopped:
        return "inactive"
    match unit:
        case "nvidia-fabricmanager":
            return _fabric_manager(machine)
        case "nvidia-persistenced":
            return "active" if has_driver(machine) else "failed"
        case "kubelet":
            return "active" if machine.joined else "inactive"
        case "containerd" | "sshd" | "ssh" | "chrony" | "nvidia-dcgm" | "systemd-journald":
            return "active"
    return "inactive"


def _fabric_manager(machine: Machine) -> str:
    if not machine.state.nvswitch:
        return "inactive"
    return "active" if fabric_ready(machine) else "failed"


def power(call: Call) -> Reply:
    """`reboot`, `poweroff`, `systemctl reboot`: the machine begins to go down, the command itself ends well."""
    off = call.has("poweroff") or (call.argv[0] in {"poweroff", "shutdown"} and not call.has("-r"))
    call.machine.reset("GracefulShutdown" if off else "GracefulRestart")
    return Reply()


def date(call: Call) -> Reply:
    """`date`, `date +%s`, `date -u +FORMAT`."""
    form = next((word[1:] for word in call.arguments if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    return said(datetime.now(UTC).strftime(form))


def who(call: Call) -> Reply:
    """`whoami` and `id -u`: the seed's user, who may do everything."""
    return said("0" if call.argv[0] == "id" else call.machine.seed.get("user", "root"))


def uptime(call: Call) -> Reply:
    """A node that nobody uses."""
    return said(" 10:00:00 up 10 min,  1 user,  load average: 0.08, 0.03, 0.01")


def chronyc(call: Call) -> Reply:
    """`chronyc tracking`: a clock that is right."""
    return said(
        "Reference ID    : 7F4D0001 (ntp.lab)",
        "Stratum         : 3",
        "System time     : 0.000012041 seconds slow of NTP time",
        "Last offset     : -0.000004102 seconds",
        "RMS offset      : 0.000021973 seconds",
        "Root delay      : 0.000611208 seconds",
        "Leap status     : Normal",
    )


def sysctl(call: Call) -> Reply:
    """`sysctl -n NAME`: the few that a cluster node is asked for."""
    known = {"net.ipv4.ip_forward": "1", "kernel.hostname": host_name(call.machine), "vm.swappiness": "60"}
    name = call.argv[-1]
    return said(known[name]) if name in known else refused(f'sysctl: cannot stat "/proc/sys/{name}"', 255)


def lsmod(call: Call) -> Reply:
    """Loaded modules; without nvidia_peermem the adapters cannot reach GPU memory."""
    gdr = not call.machine.fault("gdr_missing") and any(nic.gdr for nic in call.state.nics)
    names = ["mlx5_core", "ib_core", "nvme"]
    names += ["nvidia", "nvidia_uvm"] if has_driver(call.machine) else []
    names += ["nvidia_peermem"] if has_driver(call.machine) and gdr else []
    return said("Module                  Size  Used by", *(f"{name:<22} 65536  0" for name in names))


def silent(call: Call) -> Reply:
    """Tools that say nothing when all is well: `swapon --show` without swap, `modprobe`."""
    return Reply()
