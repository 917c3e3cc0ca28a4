"""What a scan expression must be for one pass over large buffers, and the rewriting to get there.

The automaton sees 256 KiB of many lines at a time and reports every end of a match. So an
expression may not cross a newline, a variable tail would report each of its lengths, and without
a rare literal it runs on every byte.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from re import _constants as _sre  # type: ignore[attr-defined]  # isort: skip
from re import _parser  # type: ignore[attr-defined]  # isort: skip

MIN_LITERAL_BYTES: Final = 6

_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
_OPEN: Final = re.compile(r"\((?:\?(?:P<\w+>|:))?")
_NAMED_OPEN: Final = re.compile(r"^\(\?P<\w+>$")
_BLANK: Final = r" \t\r\f\x0b"  # \s without the newline; \v is a class of its own in PCRE
_OUTSIDE_CLASS: Final = {r"\s": f"[{_BLANK}]", r"\D": r"[^0-9\n]", r"\W": r"[^0-9A-Za-z_\n]"}


@dataclass(slots=True, frozen=True)
class _Token:
    kind: str  # atom, class, open, close, bar, repeat
    text: str


_BAR: Final = _Token("bar", "|")


def automaton_form(scan: str) -> str:
    """Return `scan` without its variable tail, unable to cross a newline, groups unnamed."""
    tokens = _trimmed(_tokens(scan)) if has_variable_tail(scan) else _tokens(scan)
    return "".join(_line_safe(token) for token in tokens)


def syntax_error(pattern: str) -> str | None:
    """Why `pattern` is no regular expression, or None; parsing alone, which costs little."""
    try:
        _parse(pattern)
    except re.error as error:
        return str(error)
    return None


def has_variable_tail(pattern: str) -> bool:
    """Whether the end of a match is open, so that one line would report many ends."""
    return _open_ended(_parse(pattern))


def parsed(pattern: str) -> list[Any]:
    """Return an expression as `re` parses it; raises `re.error`."""
    return _parse(pattern)


def required_literal(pattern: str) -> str:
    """Return the longest run of literal characters that every match holds."""
    return _longest_literal(_parse(pattern))


def nested_repeat(pattern: str) -> bool:
    """Whether an unbounded repeat holds another one: exponential in a backtracking matcher."""
    return _has_nested(_parse(pattern), inside=False)


def starts_with_repeat(pattern: str) -> bool:
    """Whether the expression can begin with an unbounded repeat: quadratic when searched for."""
    return _begins_unbounded(list(_parse(pattern)))


def rival_repeats(pattern: str) -> bool:
    r"""Whether two unbounded repeats can share out the same text: at least quadratic when it fails.

    `\d+\S*` and `.*a.*` can, `\d+ \S*` cannot, because nothing but the blank parts them.
    """
    return _share(_parse(pattern), [])[0]


def crosses_lines(pattern: str) -> bool:
    r"""Whether a positive class holds `\D` or `\W`, which would match a newline."""
    return any(
        token.kind == "class"
        and not token.text.startswith("[^")
        and re.search(r"\\[DWn]", token.text)
        for token in _tokens(pattern)
    ) or any(token.text in (r"\n", r"\x0a", "\n") for token in _tokens(pattern))


@lru_cache(maxsize=4096)
def _parse(pattern: str) -> list[Any]:
    return list(_parser.parse(pattern))


def _is_repeat(item: Any) -> bool:
    return item[0] in (_sre.MAX_REPEAT, _sre.MIN_REPEAT, _sre.POSSESSIVE_REPEAT)


def _children(item: Any) -> list[Any]:
    operation, argument = item
    if operation is _sre.SUBPATTERN:
        return [argument[3]]
    if operation is _sre.BRANCH:
        return list(argument[1])
    if _is_repeat(item):
        return [argument[2]]
    if operation in (_sre.ASSERT, _sre.ASSERT_NOT):
        return [argument[1]]
    return []


def _open_ended(items: Any) -> bool:
    if not len(items):
        return False
    last = items[len(items) - 1]
    if _is_repeat(last):
        return bool(last[1][0] != last[1][1]) or _open_ended(last[1][2])
    return any(_open_ended(child) for child in _children(last))


def _longest_literal(items: Any) -> str:
    best = run = ""
    pending = list(items)
    while pending:
        item = pending.pop(0)
        operation, argument = item
        if operation is _sre.LITERAL:
            run += chr(argument)
            best = max(best, run, key=len)
            continue
        if operation is _sre.SUBPATTERN:
            pending = [*argument[3], *pending]
            continue
        if operation is _sre.AT:
            continue
        run = ""
        inner = ""
        if operation is _sre.BRANCH:
            inner = min((_longest_literal(branch) for branch in argument[1]), key=len)
        elif _is_repeat(item) and argument[0] >= 1:
            inner = _longest_literal(argument[2])
        best = max(best, inner, key=len)
    return best


def _has_nested(items: Any, *, inside: bool) -> bool:
    for item in items:
        unbounded = _is_repeat(item) and item[1][1] is _sre.MAXREPEAT
        if unbounded and inside:
            return True
        if any(_has_nested(child, inside=inside or unbounded) for child in _children(item)):
            return True
    return False


def _is_unbounded(item: Any) -> bool:
    return _is_repeat(item) and item[1][1] is _sre.MAXREPEAT


def _begins_unbounded(items: list[Any]) -> bool:
    for item in items:
        if _is_unbounded(item):
            return True
        if item[0] is _sre.AT:
            return False
        if any(_begins_unbounded(list(child)) for child in _children(item)):
            return True
        if not (_is_repeat(item) and item[1][0] == 0):
            return False
    return False


def _share(items: Any, active: list[frozenset[str]]) -> tuple[bool, list[frozenset[str]]]:
    """Walk a sequence; `active` are the repeats that could still take what comes next."""
    for item in items:
        operation, argument = item
        if operation is _sre.SUBPATTERN:
            found, active = _share(argument[3], active)
        elif operation is _sre.BRANCH:
            results = [_share(branch, active) for branch in argument[1]]
            found = any(result[0] for result in results)
            active = list({chars for result in results for chars in result[1]})
        elif _is_unbounded(item):
            chars = _characters(argument[2])
            found = any(chars & other for other in active)
            kept = active if argument[0] == 0 else [a for a in active if a & chars]
            active = [*kept, chars]
        elif _is_repeat(item):
            found, after = _share(argument[2], active)
            active = list({*active, *after}) if argument[0] == 0 else after
        elif operation in (_sre.AT, _sre.ASSERT, _sre.ASSERT_NOT):
            found = False
        else:
            found = False
            taken = _characters([item])
            active = [chars for chars in active if chars & taken]
        if found:
            return True, active
    return False, active


_ASCII: Final = frozenset(map(chr, range(9, 127)))


def _characters(items: Any) -> frozenset[str]:
    """The ASCII characters that some part of `items` can match."""
    found: set[str] = set()
    for item in items:
        operation, argument = item
        if operation is _sre.LITERAL:
            found.add(chr(argument))
        elif operation is _sre.NOT_LITERAL:
            found.update(_ASCII - {chr(argument)})
        elif operation is _sre.ANY:
            found.update(_ASCII - {"\n"})
        elif operation is _sre.IN:
            found.update(_class_characters(argument))
        else:
            for child in _children(item):
                found.update(_characters(child))
    return frozenset(found)


def _class_characters(parts: list[Any]) -> frozenset[str]:
    found: set[str] = set()
    for operation, argument in parts:
        if operation is _sre.LITERAL:
            found.add(chr(argument))
        elif operation is _sre.RANGE:
            found.update(chr(code) for code in range(argument[0], min(argument[1], 126) + 1))
        elif operation is _sre.CATEGORY:
            found.update(char for char in _ASCII if _CATEGORIES[argument].match(char))
    if parts and parts[0][0] is _sre.NEGATE:
        return _ASCII - found
    return frozenset(found)


_CATEGORIES: Final = {
    _sre.CATEGORY_DIGIT: re.compile(r"\d"),
    _sre.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    _sre.CATEGORY_SPACE: re.compile(r"\s"),
    _sre.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    _sre.CATEGORY_WORD: re.compile(r"\w"),
    _sre.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


def _tokens(pattern: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while place < len(pattern):
        token = _token_at(pattern, place, after_atom=bool(tokens))
        tokens.append(token)
        place += len(token.text)
    return tokens


def _token_at(pattern: str, place: int, *, after_atom: bool) -> _Token:
    char = pattern[place]
    if char == "\\":
        length = 4 if pattern[place + 1 : place + 2] == "x" else 2
        return _Token("atom", pattern[place : place + length])
    if char == "[":
        return _Token("class", pattern[place : _class_end(pattern, place)])
    if char == "(" and (match := _OPEN.match(pattern, place)):
        return _Token("open", match[0])
    if char in ")|":
        return _Token("close" if char == ")" else "bar", char)
    if after_atom and (match := _QUANTIFIER.match(pattern, place)):
        return _Token("repeat", match[0])
    return _Token("atom", char)


def _class_end(pattern: str, start: int) -> int:
    place = start + 1
    if pattern[place : place + 1] == "^":
        place += 1
    if pattern[place : place + 1] == "]":
        place += 1
    while place < len(pattern) and pattern[place] != "]":
        place += 2 if pattern[place] == "\\" else 1
    return place + 1


def _trimmed(tokens: list[_Token]) -> list[_Token]:
    """Cut the variable tail: `X+` becomes `X`, `X*` goes, `X{2,}` becomes `X{2}`.

    A group or alternation at the end is cut inside; one that may be empty goes altogether.
    """
    branches = _branches(tokens)
    if len(branches) > 1:
        cut = [_trimmed(branch) for branch in branches]
        if not all(cut):
            return []
        return [token for branch in cut for token in (_BAR, *branch)][1:]
    tokens = list(tokens)
    while tokens:
        last = tokens[-1]
        if last.kind == "close":
            start = _atom_start(tokens, len(tokens) - 1)
            inner = _trimmed(tokens[start + 1 : -1])
            if inner:
                return [*tokens[: start + 1], *inner, last]
            tokens = tokens[:start]
            continue
        if last.kind != "repeat" or (least := _least(last.text)) is None:
            return tokens
        if least > 1:
            return [*tokens[:-1], _Token("repeat", f"{{{least}}}")]
        tokens = tokens[: -1 if least else _atom_start(tokens, len(tokens) - 2)]
    return tokens


def _branches(tokens: list[_Token]) -> list[list[_Token]]:
    """The alternatives at the top level."""
    branches: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if token.kind == "bar" and depth == 0:
            branches.append([])
        else:
            branches[-1].append(token)
    return branches


def _least(quantifier: str) -> int | None:
    """The lower bound of a variable quantifier, None for a fixed one."""
    text = quantifier.rstrip("?+") or quantifier[0]
    if text in ("*", "?"):
        return 0
    if quantifier[0] == "+":
        return 1
    if quantifier[0] == "?":
        return 0
    low, comma, high = text.strip("{}").partition(",")
    if not comma or low == high:
        return None
    return int(low or 0)


def _atom_start(tokens: list[_Token], end: int) -> int:
    if tokens[end].kind != "close":
        return end
    depth = 0
    for place in range(end, -1, -1):
        depth += (tokens[place].kind == "close") - (tokens[place].kind == "open")
        if depth == 0:
            return place
    return 0


def _line_safe(token: _Token) -> str:
    if token.kind == "open":
        return "(?:" if _NAMED_OPEN.match(token.text) else token.text
    if token.kind == "atom":
        return _OUTSIDE_CLASS.get(token.text, token.text)
    if token.kind == "class":
        body = token.text[1:-1]
        if body.startswith("^"):
            return f"[{body}]" if r"\n" in body else f"[{body}\\n]"
        return "[" + body.replace(r"\s", _BLANK) + "]"
    return token.text
