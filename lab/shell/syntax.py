"""A script as a tree: lists, `&&` and `||`, pipes, `for`, `if`, simple commands with their redirections."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from lab.shell.words import Operator, Token, Word, tokens

_ENDS = frozenset({"done", "fi", "then", "else", "do", ")"})
_REDIRECTS = frozenset({">", ">>", "<", "2>", "2>&1", ">&2", "1>&2", "&>"})
_NO_TARGET = frozenset({"2>&1", ">&2", "1>&2"})


@dataclass(slots=True)
class Simple:
    """Words and where their output goes."""

    words: list[Word] = field(default_factory=list)
    redirects: list[tuple[str, Word]] = field(default_factory=list)


@dataclass(slots=True)
class ForLoop:
    """`for name in words; do body; done`."""

    name: str
    words: list[Word]
    body: Script


@dataclass(slots=True)
class Branch:
    """`if test; then body; else other; fi`."""

    test: Script
    body: Script
    other: Script


@dataclass(slots=True)
class Chain:
    """Pipelines joined by `&&` and `||`, perhaps in the background. The first joint is always empty."""

    links: list[tuple[str, list[Simple | ForLoop | Branch | Script]]] = field(default_factory=list)
    background: bool = False


@dataclass(slots=True)
class Script:
    """Chains one after the other."""

    chains: list[Chain] = field(default_factory=list)


@lru_cache(maxsize=512)  # every node of a rack is asked the same; nobody changes a tree
def parse(text: str) -> Script:
    """The tree of a script. Raises ValueError as `sh` would complain."""
    reader = _Reader(tokens(text))
    script = reader.script()
    if reader.left:
        raise ValueError(f"syntax error near `{reader.text()}'")
    return script


class _Reader:
    def __init__(self, left: list[Token]) -> None:
        self.left = list(reversed(left))

    def text(self) -> str:
        """The next token as text; empty at the end or for a quoted word."""
        if not self.left:
            return ""
        token = self.left[-1]
        return token.text if isinstance(token, Operator) else token.bare

    def at_operator(self, *texts: str) -> bool:
        """Whether the next token is one of these operators."""
        return bool(self.left) and isinstance(self.left[-1], Operator) and self.left[-1].text in texts

    def take(self, text: str) -> None:
        """Go past a keyword that must be there."""
        if self.text() != text:
            raise ValueError(f"syntax error: expected `{text}' near `{self.text()}'")
        self.left.pop()

    def script(self) -> Script:
        script = Script()
        while self.left:
            if self.at_operator(";", "\n", "&"):
                self.left.pop()
            elif self.text() in _ENDS:
                break
            else:
                script.chains.append(self.chain())
        return script

    def chain(self) -> Chain:
        chain = Chain([("", self.pipeline())])
        while self.at_operator("&&", "||"):
            joint = self.text()
            self.left.pop()
            chain.links.append((joint, self.pipeline()))
        chain.background = self.at_operator("&")
        return chain

    def pipeline(self) -> list[Simple | ForLoop | Branch | Script]:
        found = [self.command()]
        while self.at_operator("|"):
            self.left.pop()
            found.append(self.command())
        return found

    def command(self) -> Simple | ForLoop | Branch | Script:
        if self.at_operator("("):
            self.left.pop()
            inner = self.script()
            self.take(")")
            return inner
        match self.text():
            case "for":
                return self._for()
            case "if":
                return self._if()
        return self._simple()

    def _for(self) -> ForLoop:
        self.take("for")
        name = self.text()
        self.left.pop()
        self.take("in")
        words = []
        while self.left and isinstance(self.left[-1], Word):
            words.append(self.left.pop())
        self._skip()
        self.take("do")
        body = self.script()
        self.take("done")
        return ForLoop(name, [word for word in words if isinstance(word, Word)], body)

    def _if(self) -> Branch:
        self.take("if")
        test = self.script()
        self.take("then")
        body, other = self.script(), Script()
        if self.text() == "else":
            self.take("else")
            other = self.script()
        self.take("fi")
        return Branch(test, body, other)

    def _skip(self) -> None:
        while self.at_operator(";", "\n"):
            self.left.pop()

    def _simple(self) -> Simple:
        simple = Simple()
        while self.left:
            token = self.left[-1]
            if isinstance(token, Word):
                simple.words.append(token)
                self.left.pop()
            elif token.text in _REDIRECTS:
                self.left.pop()
                simple.redirects.append((token.text, self._target(token.text)))
            else:
                break
        if not simple.words and not simple.redirects:
            raise ValueError(f"syntax error near `{self.text()}'")
        return simple

    def _target(self, redirect: str) -> Word:
        if redirect in _NO_TARGET:
            return Word()
        if not self.left or not isinstance(self.left[-1], Word):
            raise ValueError("syntax error near unexpected token `newline'")
        word = self.left.pop()
        assert isinstance(word, Word)  # noqa: S101 (seen just above)
        return word
