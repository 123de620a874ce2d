"""`ibstat`, `ibv_devinfo`, `ibdev2netdev`: the adapters by their RDMA names."""

from __future__ import annotations

from lab.hardware import NicState
from lab.shell.call import Call
from lab.shell.net_state import netdev_name
from lab.shell.reply import Reply, lines, refused
from lab.shell.sysfs_rdma import guid_words, rate_gbit_s


def _chosen(call: Call, name: str) -> list[NicState]:
    return [nic for nic in call.state.nics if not name or nic.name == name]


def _digits(guid: str) -> str:
    return guid.replace(":", "").lower()


def ibstat(call: Call) -> Reply:
    """A block an adapter."""
    words = [word for word in call.arguments if not word.startswith("-")]
    nics = _chosen(call, words[0] if words else "")
    if not nics:
        return refused(f"ibpanic: [2001] main: '{words[0]}' IB device can't be found: No such file or directory", 255)
    if call.has("-l"):
        return Reply(lines(*(nic.name for nic in nics)))
    return Reply(lines(*(row for nic in nics for row in _block(nic))))


def _block(nic: NicState) -> list[str]:
    guid = _digits(nic.guid)
    return [
        f"CA '{nic.name}'",
        "\tCA type: MT4129",
        "\tNumber of ports: 1",
        f"\tFirmware version: {nic.firmware}",
        "\tHardware version: 0",
        f"\tNode GUID: 0x{guid}",
        f"\tSystem image GUID: 0x{guid}",
        "\tPort 1:",
        f"\t\tState: {'Active' if nic.link_up else 'Down'}",
        f"\t\tPhysical state: {'LinkUp' if nic.link_up else 'Polling'}",
        f"\t\tRate: {rate_gbit_s(nic)}",
        f"\t\tBase lid: {nic.index + 1 if nic.link_up else 65535}",
        "\t\tLMC: 0",
        f"\t\tSM lid: {1 if nic.link_up else 0}",
        "\t\tCapability mask: 0xa751e848",
        f"\t\tPort GUID: 0x{guid}",
        f"\t\tLink layer: {nic.link_layer}",
    ]


def ibv_devinfo(call: Call) -> Reply:
    """`ibv_devinfo [-d NAME]`."""
    nics = _chosen(call, call.option("-d"))
    if not nics:
        return refused(f"No IB devices found matching {call.option('-d')}", 255)
    return Reply("".join(_devinfo(nic) for nic in nics))


def _devinfo(nic: NicState) -> str:
    infiniband = nic.link_layer == "InfiniBand"
    return lines(
        f"hca_id:\t{nic.name}",
        f"\ttransport:\t\t\t{'InfiniBand (0)'}",
        f"\tfw_ver:\t\t\t\t{nic.firmware}",
        f"\tnode_guid:\t\t\t{guid_words(nic.guid)}",
        f"\tsys_image_guid:\t\t\t{guid_words(nic.guid)}",
        "\tvendor_id:\t\t\t0x02c9",
        "\tvendor_part_id:\t\t\t4129",
        "\thw_ver:\t\t\t\t0x0",
        "\tboard_id:\t\t\tMT_0000000838",
        "\tphys_port_cnt:\t\t\t1",
        "\t\tport:\t1",
        f"\t\t\tstate:\t\t\t{'PORT_ACTIVE (4)' if nic.link_up else 'PORT_DOWN (1)'}",
        "\t\t\tmax_mtu:\t\t4096 (5)",
        "\t\t\tactive_mtu:\t\t4096 (5)",
        f"\t\t\tsm_lid:\t\t\t{1 if infiniband and nic.link_up else 0}",
        f"\t\t\tport_lid:\t\t{nic.index + 1 if infiniband else 0}",
        "\t\t\tport_lmc:\t\t0x00",
        f"\t\t\tlink_layer:\t\t{nic.link_layer}",
        "",
    )


def ibdev2netdev(call: Call) -> Reply:
    """Which RDMA device is which network device."""
    rows = [f"{n.name} port 1 ==> {netdev_name(n)} ({'Up' if n.link_up else 'Down'})" for n in call.state.nics]
    return Reply(lines(*rows))
