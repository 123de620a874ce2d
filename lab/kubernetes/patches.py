"""The four ways to patch an object: merge, strategic merge, JSON patch and server-side apply."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from lab.kubernetes.kinds import Body, Refused
from lab.kubernetes.store import timestamp

# Lists merged by key in a strategic merge; all others, taints among them, are replaced whole.
# Source: the patchStrategy and patchMergeKey tags of k8s.io/api core/v1.
_MERGE_KEYS = {"conditions": "type", "addresses": "type", "containers": "name", "ownerReferences": "uid"}
Path = tuple[str, ...]


def merge(old: Any, patch: Any) -> Any:
    """RFC 7396: null removes, dicts merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic_merge(old: Any, patch: Any, field: str = "") -> Any:
    """As merge, but lists with a merge key are merged element by element."""
    if isinstance(patch, list) and field in _MERGE_KEYS:
        return _merge_list(old or [], patch, _MERGE_KEYS[field])
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):  # $setElementOrder and $retainKeys only shape what we do not keep
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = strategic_merge(merged.get(key), value, key)
    return merged


def _merge_list(old: list[Body], patch: list[Body], key: str) -> list[Body]:
    merged = {item[key]: item for item in old}
    for item in patch:
        if item.get("$patch") == "delete":
            merged.pop(item[key], None)
        else:
            merged[item[key]] = strategic_merge(merged.get(item[key], {}), item)
    return list(merged.values())


def json_patch(old: Body, operations: list[Body]) -> Body:
    """RFC 6902; a `test` that does not hold, or a path that is not there, is 422 as on the real server."""
    changed = copy.deepcopy(old)
    for operation in operations:
        try:
            _apply(changed, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise Refused(422, f"the server rejected our request due to an error in our request: {error}") from error
    return changed


def _apply(target: Body, operation: Body) -> None:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    holder: Any = target
    for step in steps[:-1]:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    match operation["op"], holder:
        case "test", _:
            if _value(holder, steps[-1]) != operation.get("value"):
                raise ValueError(f"testing path {operation['path']} value failed")
        case "remove", _:
            del holder[_index(holder, steps[-1])]
        case "add", list():
            holder.insert(len(holder) if steps[-1] == "-" else int(steps[-1]), operation["value"])
        case "replace", _:
            _value(holder, steps[-1])
            holder[_index(holder, steps[-1])] = operation["value"]
        case "add", dict():
            holder[steps[-1]] = operation["value"]
        case other, _:
            raise ValueError(f"Unexpected kind: {other}")


def _index(holder: Any, step: str) -> Any:
    return int(step) if isinstance(holder, list) else step


def _value(holder: Any, step: str) -> Any:
    return holder[_index(holder, step)]


def server_side_apply(old: Body, body: Body, manager: str, *, force: bool) -> Body:
    """Fields have owners; another manager's field with another value is a 409 unless forced."""
    wanted = dict(_leaves(body))
    conflicts = [
        (path, other)
        for path, value in wanted.items()
        for other in _owners(old, path)
        if other != manager and _at(old, path) != value
    ]
    if conflicts and not force:
        (path, other), *_ = conflicts
        raise Refused(
            409,
            f"Apply failed with {len(conflicts)} conflict{'s' * (len(conflicts) > 1)}: "
            f'conflict with "{other}": .{".".join(path)}',
            causes=tuple({"reason": "FieldManagerConflict", "field": f".{'.'.join(p)}"} for p, _ in conflicts),
        )
    changed: Body = merge(old, {key: value for key, value in body.items() if key not in ("apiVersion", "kind")})
    for gone in _paths_of(old, manager) - wanted.keys():
        if not [other for other in _owners(old, gone) if other != manager]:
            _drop(changed, gone)
    taken = {path for path, _ in conflicts}
    changed["metadata"]["managedFields"] = _managed(old, manager, set(wanted), taken)
    return changed


def _leaves(body: Body, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The fields an applied body claims; what only names the object is not claimed."""
    for key, value in body.items():
        path = (*at, key)
        if path in (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")):
            continue
        if isinstance(value, dict) and value:
            yield from _leaves(value, path)
        else:
            yield path, value


def _managed(old: Body, manager: str, wanted: set[Path], taken: set[Path]) -> list[Body]:
    others = {
        entry["manager"]: _tree_paths(entry["fieldsV1"]) - taken
        for entry in old["metadata"].get("managedFields", [])
        if entry["manager"] != manager
    }
    return [_entry(name, paths) for name, paths in {**others, manager: wanted}.items() if paths]


def _entry(manager: str, paths: set[Path]) -> Body:
    tree: Body = {}
    for path in sorted(paths):
        at = tree
        for step in path:
            at = at.setdefault(f"f:{step}", {})
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "v1",
        "time": timestamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }


def _tree_paths(tree: Body, at: Path = ()) -> set[Path]:
    if not tree:
        return {at}
    return {path for key, below in tree.items() for path in _tree_paths(below, (*at, key.removeprefix("f:")))}


def _paths_of(body: Body, manager: str) -> set[Path]:
    entries = body["metadata"].get("managedFields", [])
    return {path for entry in entries if entry["manager"] == manager for path in _tree_paths(entry["fieldsV1"])}


def _owners(body: Body, path: Path) -> list[str]:
    entries = body["metadata"].get("managedFields", [])
    return [entry["manager"] for entry in entries if path in _tree_paths(entry["fieldsV1"])]


def _at(body: Any, path: Path) -> Any:
    for step in path:
        body = body.get(step) if isinstance(body, dict) else None
    return body


def _drop(body: Body, path: Path) -> None:
    holder = _at(body, path[:-1])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
