"""The service root, sessions, tasks and the BIOS registry's place: what a client meets before any hardware."""

from __future__ import annotations

from lab.bmc.answers import ROOT, Answer, Resource, collection, error, link, resource
from lab.bmc.bmc import SESSION_IDLE_S, Bmc, Task


def service_root(bmc: Bmc) -> Resource:
    """The root, readable without a login."""
    layout = bmc.layout
    return resource(
        "",
        "ServiceRoot.v1_13_0.ServiceRoot",
        "Root Service",
        Vendor=layout.vendor,
        Product=layout.product,
        RedfishVersion="1.15.0",
        UUID=bmc.machine.state.uuid.upper(),
        ProtocolFeaturesSupported=_features(layout.expand_levels),
        Systems=link("/Systems"),
        Chassis=link("/Chassis"),
        Managers=link("/Managers"),
        UpdateService=link("/UpdateService"),
        Tasks=link("/TaskService"),
        SessionService=link("/SessionService"),
        Registries=link("/Registries"),
        Links={"Sessions": link("/SessionService/Sessions")},
    )


def _features(levels: int) -> Resource:
    expand = {"ExpandAll": True, "Levels": True, "Links": False, "NoLinks": True, "MaxLevels": levels}
    return {"ExpandQuery": expand if levels else {}, "FilterQuery": False, "SelectQuery": False}


def session_service(bmc: Bmc) -> Resource:
    """How sessions are had."""
    return resource(
        "/SessionService",
        "SessionService.v1_1_8.SessionService",
        "Session Service",
        ServiceEnabled=True,
        SessionTimeout=SESSION_IDLE_S,
        Sessions=link("/SessionService/Sessions"),
    )


def sessions(bmc: Bmc) -> Resource:
    """Who is logged in."""
    return collection("/SessionService/Sessions", "Session", list(bmc.sessions))


def session(bmc: Bmc, session_id: str) -> Resource | None:
    """One login."""
    found = bmc.sessions.get(session_id)
    if not found:
        return None
    path = f"/SessionService/Sessions/{session_id}"
    return resource(path, "Session.v1_4_0.Session", "User Session", UserName=found.username)


def task_service(bmc: Bmc) -> Resource:
    """Where long operations are followed."""
    return resource(
        "/TaskService",
        "TaskService.v1_2_0.TaskService",
        "Task Service",
        ServiceEnabled=True,
        CompletedTaskOverWritePolicy="Oldest",
        Tasks=link("/TaskService/Tasks"),
    )


def tasks(bmc: Bmc) -> Resource:
    """The operations still remembered."""
    return collection("/TaskService/Tasks", "Task", [key for key, one in bmc.tasks.items() if not one.purged])


def task(bmc: Bmc, task_id: str) -> Resource | None:
    """One operation and how far it is; always 200 while it is remembered."""
    found = bmc.tasks.get(task_id)
    return task_body(found) if found and not found.purged else None


def task_body(task: Task) -> Resource:
    """A task as a resource."""
    state = "Running" if task.running else ("Exception" if task.failed else "Completed")
    return resource(
        f"/TaskService/Tasks/{task.id}",
        "Task.v1_7_1.Task",
        task.name,
        TaskState=state,
        TaskStatus="Critical" if task.failed and not task.running else "OK",
        PercentComplete=50 if task.running else 100,
        TaskMonitor=f"{ROOT}/TaskService/TaskMonitors/{task.id}",
        Messages=[{"MessageId": "Base.1.13.GeneralError", "Message": task.failed}] if task.failed else [],
    )


def monitor(bmc: Bmc, task_id: str) -> Answer:
    """202 with a numeric Retry-After while at work, then the result, then 404."""
    found = bmc.tasks.get(task_id)
    if not found or found.purged:
        return error("ResourceMissingAtURI", f"{ROOT}/TaskService/TaskMonitors/{task_id}")
    if found.running:
        return accepted(found)
    return error("GeneralError", found.failed) if found.failed else Answer(200, task_body(found))


def accepted(task: Task) -> Answer:
    """202 with both a monitor in Location and the task as body, as several BMCs do."""
    place = f"{ROOT}/TaskService/TaskMonitors/{task.id}"
    return Answer(202, task_body(task), {"Location": place, "Retry-After": "1"})
