"""The lab's own levers over HTTP on loopback: look, break, mend, edit behind the product's back, go down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from lab.edits import EDITS
from lab.machine import Machine

if TYPE_CHECKING:
    from lab.rack import LabRack


def make_control(rack: LabRack) -> web.Application:
    """The control application of a lab."""

    async def status(_: web.Request) -> web.Response:
        return web.json_response(
            {
                "nodes": [node_status(rack, machine) for machine in rack.machines.values()],
                "faults": sorted(rack.faults),
                "netbox": {"url": rack.netbox_url, "writes": rack.book.writes},
                "kubernetes": {"url": rack.cluster.url, "writes": rack.cluster.writes},
            }
        )

    async def inject(request: web.Request) -> web.Response:
        asked = await request.json()
        return _done(rack.inject(_word(asked, "node"), _word(asked, "fault")))

    async def heal(request: web.Request) -> web.Response:
        asked = await request.json()
        return _done(rack.heal(_word(asked, "node"), str(asked.get("fault", ""))))

    async def edit(request: web.Request) -> web.Response:
        asked = await request.json()
        name = _word(asked, "edit")
        if name not in EDITS:
            raise ValueError(f"{name}: no such edit. One of {', '.join(EDITS)}")
        node = _word(asked, "node")
        for machine in list(rack.machines.values()) if node == "*" else [rack.machine(node)]:
            EDITS[name].do(rack, machine)
        return _done([name])

    async def down(_: web.Request) -> web.Response:
        rack.ended.set()
        return _done([])

    app = web.Application(middlewares=[_say_why])
    app.router.add_get("/status", status)
    app.router.add_post("/inject", inject)
    app.router.add_post("/heal", heal)
    app.router.add_post("/rack-edit", edit)
    app.router.add_post("/down", down)
    return app


@web.middleware
async def _say_why(request: web.Request, handler: Any) -> web.StreamResponse:
    """A wrong name is the asker's mistake: 400 with the sentence."""
    try:
        answer: web.StreamResponse = await handler(request)
    except ValueError as error:
        return web.Response(status=400, text=str(error))
    return answer


def _word(asked: Any, key: str) -> str:
    if not isinstance(asked, dict) or not isinstance(asked.get(key), str):
        raise ValueError(f"say {key!r} in a JSON object")
    return str(asked[key])


def _done(what: list[str]) -> web.Response:
    return web.json_response({"done": what})


def node_status(rack: LabRack, machine: Machine) -> dict[str, Any]:
    """One node as the lab sees it."""
    state = machine.state
    return {
        "name": machine.name,
        "rack": state.rack,
        "unit": state.unit,
        "shape": str(state.shape),
        "serial": state.serial,
        "power": machine.power,
        "progress": machine.progress,
        "posts": machine.posts,
        "boots": list(machine.boots),
        "running": machine.running,
        "joined": machine.joined is not None,
        "faults": sorted(state.faults - state.recovered),
        "recovered": sorted(state.recovered),
        "writes_begun": sum(drive.writes_begun for drive in state.drives),
        "bmc_url": rack.bmcs[machine.name].url,
        "bmc_requests": rack.bmcs[machine.name].bmc.requests,
        "bmc_sessions": len(rack.bmcs[machine.name].bmc.sessions),
        "boot_override": machine.override.target,
        "media": machine.media.image,
        "ssh": machine.ssh_address,
        "agent": machine.agent_log[-1:],
    }
