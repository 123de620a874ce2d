"""`cat`, `grep`, `ls`, `test` and the few tools that change files, on the node's simulated tree."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from lab.machine import Machine
from lab.shell.call import Call
from lab.shell.node import memory
from lab.shell.reply import Reply, lines, no_such_file, refused, said
from lab.shell.tree import below, files, is_folder, matching

_Take = Callable[[list[str], int], list[str]]


def cat(call: Call) -> Reply:
    """Print files; without any, what came in."""
    names = [word for word in call.arguments if word == "-" or not word.startswith("-")]
    if not names:
        return Reply(call.stdin)
    tree, out, err = files(call.machine), "", ""
    for name in names:
        text = call.stdin if name == "-" else tree.get(call.path(name))
        if text is None:
            err += no_such_file("cat", name).stderr
        else:
            out += text if call.path(name) in memory(call.machine).files else _ended(text)
    return Reply(out, err, 1 if err else 0)


def _ended(text: str) -> str:
    """A system file ends with a newline."""
    return text if text.endswith("\n") or not text else f"{text}\n"


def grep(call: Call) -> Reply:
    """Lines of files, or of what came in, that match. Knows -r -H -h -s -i -v -c -q -E -F -n -l."""
    flags, words = _split(call.arguments)
    if not words:
        return refused("Usage: grep [OPTION]... PATTERNS [FILE]...", 2)
    pattern, names = words[0], words[1:]
    tree = files(call.machine)
    sought = _paths(call.machine, names, "r" in flags or "R" in flags)
    many = "H" in flags or "r" in flags or len(sought) > 1
    named = many and "h" not in flags
    texts = [(path, tree.get(call.path(path))) for path in sought] if names else [("(standard input)", call.stdin)]
    rows = [row for path, text in texts for row in _hits(path if named and names else "", text or "", pattern, flags)]
    unread = [path for path, text in texts if text is None and "s" not in flags]
    err = "".join(no_such_file("grep", path).stderr for path in unread)
    code = 2 if any(text is None for _, text in texts) and not rows else (0 if rows else 1)
    return Reply("" if "q" in flags else _counted(rows, flags), err, code)


def _counted(rows: list[str], flags: str) -> str:
    return f"{len(rows)}\n" if "c" in flags else lines(*rows)


def _hits(path: str, text: str, pattern: str, flags: str) -> list[str]:
    expression = re.compile(re.escape(pattern) if "F" in flags else pattern, re.IGNORECASE if "i" in flags else 0)
    found = [row for row in text.splitlines() if bool(expression.search(row)) != ("v" in flags)]
    if "l" in flags:
        return [path] if found else []
    return [f"{path}:{row}" if path else row for row in found]


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """All single-letter options as one string, and the words."""
    flags = "".join(a[1:] for a in arguments if a.startswith("-") and not a.startswith("--") and a != "-")
    return flags, [a for a in arguments if not a.startswith("-") or a == "-"]


def _paths(machine: Machine, names: list[str], deep: bool) -> list[str]:
    found: list[str] = []
    for name in names:
        found += below(machine, name) if deep and is_folder(machine, name) else [name]
    return found


def ls(call: Call) -> Reply:
    """Names in folders, one a line."""
    _, names = _split(call.arguments)
    rows, err, tree = [], "", files(call.machine)
    for name in names or ["/"]:
        if name in tree:
            rows.append(name)
        elif is_folder(call.machine, name):
            rows += [path.rpartition("/")[2] for path in matching(call.machine, f"{name.rstrip('/')}/*")]
        else:
            err += refused(f"ls: cannot access '{name}': No such file or directory", 2).stderr
    return Reply(lines(*rows), err, 2 if err else 0)


def test(call: Call) -> Reply:
    """`test` and `[`: -e -f -d -s -r -n -z, `=`, `!=`, and a leading `!`."""
    words = [word for word in call.arguments if word != "]"]
    negated = bool(words) and words[0] == "!"
    return Reply(exit=int(_true(call.machine, words[1:] if negated else words) == negated))


_COMPARES: dict[str, Callable[[str, str], bool]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "-eq": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "-ne": lambda left, right: left != right,
}
_LOOKS: dict[str, Callable[[Machine, str], bool]] = {
    "-d": is_folder,
    "-e": lambda machine, path: path in files(machine) or is_folder(machine, path),
    "-r": lambda machine, path: path in files(machine) or is_folder(machine, path),
    "-f": lambda machine, path: path in files(machine),
    "-s": lambda machine, path: bool(files(machine).get(path)),
    "-n": lambda machine, text: bool(text),
    "-z": lambda machine, text: not text,
}


def _true(machine: Machine, words: list[str]) -> bool:
    match words:
        case [text]:
            return bool(text)
        case [look, subject] if look in _LOOKS:
            return _LOOKS[look](machine, subject)
        case [left, sign, right] if sign in _COMPARES:
            return _COMPARES[sign](left, right)
    return False


def mkdir(call: Call) -> Reply:
    """Make folders, with all above them."""
    flags, words = _split(call.arguments)
    for word in words[1:] if "m" in flags else words:
        memory(call.machine).folders.add(word.rstrip("/"))
    return Reply()


def rm(call: Call) -> Reply:
    """Forget uploaded files; what the system shows cannot be removed here, and is only noted."""
    held = memory(call.machine)
    for word in _split(call.arguments)[1]:
        held.removed.append(word)
        for path in [p for p in held.files if p == word or p.startswith(word.rstrip("/") + "/")]:
            del held.files[path]
        held.folders.discard(word.rstrip("/"))
    return Reply()


def install(call: Call) -> Reply:
    """`install -D -m MODE SOURCE TARGET`, `cp` and `mv`: the last word is where it goes; `install -d` makes folders."""
    words, held = _split(call.arguments)[1], memory(call.machine)
    if call.has("-m"):
        words = [word for word in words if word != call.option("-m")]
    if call.has("-d"):
        held.folders.update(words)
        return Reply()
    source, target = words[-2:]
    text = call.stdin if source in {"-", "/dev/stdin"} else files(call.machine).get(source)
    if text is None:
        return refused(f"{call.argv[0]}: cannot stat '{source}': No such file or directory")
    held.files[target] = text.encode()
    if call.argv[0] == "mv":
        held.files.pop(source, None)
    return Reply()


def tee(call: Call) -> Reply:
    """Write what came in to files and on."""
    for word in _split(call.arguments)[1]:
        memory(call.machine).files[word] = call.stdin.encode()
    return Reply(call.stdin)


def head(call: Call) -> Reply:
    """The first lines of what came in or of a file."""
    return _some(call, lambda rows, count: rows[:count])


def tail(call: Call) -> Reply:
    """The last lines of what came in or of a file."""
    return _some(call, lambda rows, count: rows[-count:])


def _some(call: Call, take: _Take) -> Reply:
    count = int(call.option("-n") or next((a[1:] for a in call.arguments if re.fullmatch(r"-\d+", a)), "10"))
    names = [word for word in call.arguments if not word.startswith("-") and word != call.option("-n")]
    text = files(call.machine).get(names[0]) if names else call.stdin
    if text is None:
        return no_such_file(call.argv[0], names[0])
    return Reply(lines(*take(text.splitlines(), count)))


def wc(call: Call) -> Reply:
    """`wc -l` and `wc -c` of what came in."""
    size = len(call.stdin.encode()) if call.has("-c") else call.stdin.count("\n")
    return Reply(f"{size}\n")


def sha256sum(call: Call) -> Reply:
    """Digest and name of each file; of what came in without any."""
    if not call.arguments:
        return said(f"{hashlib.sha256(call.stdin.encode()).hexdigest()}  -")
    tree, out, err = files(call.machine), "", ""
    for name in call.arguments:
        text = tree.get(call.path(name))
        if text is None:
            err += no_such_file("sha256sum", name).stderr
        else:
            out += f"{hashlib.sha256(_ended(text).encode()).hexdigest()}  {name}\n"
    return Reply(out, err, 1 if err else 0)


def nothing(call: Call) -> Reply:
    """Tools whose doing nobody looks at: chmod, chown, sync, touch."""
    return Reply()
