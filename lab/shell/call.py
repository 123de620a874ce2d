"""One tool being called on a node, and how the words before the tool are taken off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.hardware import NodeState
from lab.machine import Machine
from lab.shell.reply import Reply


@dataclass(frozen=True, slots=True)
class Call:
    """Who is asked, with which words, in which environment."""

    machine: Machine
    argv: tuple[str, ...]
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/root"  # where it is called

    @property
    def state(self) -> NodeState:
        """The hardware."""
        return self.machine.state

    @property
    def arguments(self) -> list[str]:
        """The words after the tool's name."""
        return list(self.argv[1:])

    def path(self, word: str) -> str:
        """A path as seen from where the tool is called."""
        return word if word.startswith("/") else f"{self.folder.rstrip('/')}/{word}"

    def option(self, *names: str, default: str = "") -> str:
        """The value of an option written `-b 8`, `--begin 8` or `--begin=8`."""
        for place, word in enumerate(self.argv):
            if word in names and place + 1 < len(self.argv):
                return self.argv[place + 1]
            name, equals, value = word.partition("=")
            if equals and name in names:
                return value
        return default

    def has(self, *words: str) -> bool:
        """Whether one of these words stands among the arguments."""
        return any(word in self.argv[1:] for word in words)


Tool = Callable[[Call], Reply]

# Programs that only run another one, and how many of their own words go before it (options with a value count two).
_VALUED = {
    "nice": {"-n"},
    "ionice": {"-c", "-n"},
    "numactl": {"-N", "-m", "-C"},
    "stdbuf": {"-i", "-o", "-e"},
    "sudo": {"-u"},
    "timeout": {"-k", "-s", "--kill-after", "--signal"},
    "taskset": {"-c"},
    "chrt": set[str](),
    "nohup": set[str](),
    "setsid": set[str](),
    "command": set[str](),
    "time": set[str](),
    "env": {"-u"},
}
_OWN_WORDS = {"timeout": 1, "taskset": 1, "chrt": 1}  # words that are not options: the seconds, the mask, the priority


def unwrap(argv: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The tool that is really meant and the environment set on the way, `env A=b nice -n 5 cmd` → `cmd`, {A: b}."""
    env: dict[str, str] = {}
    while argv and is_wrapper(argv[0]):
        argv = without_wrapper(argv, env)
    return argv, env


def is_wrapper(word: str) -> bool:
    """Whether this program only runs another."""
    return _name(word) in _VALUED


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def without_wrapper(argv: tuple[str, ...], env: dict[str, str]) -> tuple[str, ...]:
    """The command without its first wrapper; `env`'s settings go into the dictionary."""
    wrapper, rest = _name(argv[0]), list(argv[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        if option in _VALUED[wrapper] and rest:
            rest.pop(0)
    del rest[: _OWN_WORDS.get(wrapper, 0) if wrapper != "taskset" or "-c" not in argv[:3] else 0]
    while wrapper == "env" and rest and "=" in rest[0]:
        name, _, value = rest.pop(0).partition("=")
        env[name] = value
    return tuple(rest)
