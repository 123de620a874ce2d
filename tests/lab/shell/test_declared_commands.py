"""Every command the product declares is answered by a healthy node, and its own reader understands the answer."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from typing import Any

import pytest

import flows.stages.join
import inventory.parsers
from burnin.fabric import pair_argv, pair_asked
from burnin.gpu import gpu_burn_command, nvbandwidth_command
from burnin.load import load_command
from burnin.nccl import all_gather, all_reduce, loopback_net, nccl_command, parse_nccl
from burnin.perftest import adapters_command, ib_write_bw_command, rail_client, rail_server
from inventory.command import Command
from lab.hardware import Shape
from lab.shell.local import run_here


def declared() -> list[Command[Any]]:
    """All `Command` constants of the readers, and those that burn-in makes."""
    names = [name for _, name, _ in pkgutil.iter_modules(inventory.parsers.__path__, "inventory.parsers.")]
    found = [value for name in names for value in vars(importlib.import_module(name)).values()]
    found += list(vars(flows.stages.join).values())
    constants = {command.name: command for command in found if isinstance(command, Command)}
    return [
        *(command for command in constants.values() if command.name != "kubeadm join"),  # has a test of its own
        nvbandwidth_command(),
        gpu_burn_command(),
        load_command(),
        adapters_command(),
        ib_write_bw_command("mlx5_3", 3),
        *(nccl_command(asked(8)) for asked in (all_reduce, all_gather, loopback_net)),
    ]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("command", declared(), ids=lambda command: command.name)
def test_declared_command_is_answered_and_understood(make_node, shape: Shape, command: Command[Any]) -> None:
    """Exit 0 (3: no Fabric Manager without NVSwitches; 1: not joined yet) and a reader that does not complain."""
    reply = asyncio.run(run_here(make_node(shape), command.argv))
    no_switch = shape is Shape.PROCESSORS and command.name == "fabric-manager-active"
    not_joined = command.name == "kubelet configured"
    assert (3 if no_switch else int(not_joined)) == reply.exit, reply.stderr
    command.parse(reply.stdout)


def test_a_rail_between_two_nodes_is_answered(make_node) -> None:
    """The server on one node ends with its client on the other, and both print the figure."""

    async def both() -> tuple[Any, Any]:
        one, other = make_node(number=1), make_node(number=2)
        server = asyncio.create_task(run_here(one, rail_server("mlx5_2", 2, 60.0).argv))
        await asyncio.sleep(0.05)
        client = await run_here(other, rail_client("mlx5_2", 2, "127.78.1.1", 60.0).argv)
        return await server, client

    server, client = asyncio.run(both())
    figure = rail_client("mlx5_2", 2, "127.78.1.1", 60.0).parse(client.stdout).ib_write_bw_gbit_s
    assert (0, 0) == (server.exit, client.exit)
    assert pytest.approx(392.0, rel=0.01) == figure


def test_a_pair_is_answered(make_node) -> None:
    """Rank 0 prints one table over sixteen GPUs, rank 1 only its log."""

    async def both() -> tuple[Any, Any]:
        one, other = make_node(number=1), make_node(number=2)
        argv = [pair_argv(pair_asked(8), rank, "127.78.1.1:29430") for rank in (0, 1)]
        return await asyncio.gather(run_here(other, argv[1]), run_here(one, argv[0]))

    follower, leader = asyncio.run(both())
    run = parse_nccl(leader.stdout, collective="all_reduce")
    assert (0, 0) == (leader.exit, follower.exit)
    assert (16, ()) == (run.rank_count, run.problems)
    assert {"r1-n01", "r1-n02"} == {rank.host for rank in run.ranks}
    assert {"NET/IB/GDRDMA", "P2P"} == set(run.transport.ways)
    assert pytest.approx(370.0, rel=0.02) == run.plateau_gb_s
    assert "# Rank" not in follower.stdout
