"""Pickles of plain data, read without an unpickler.

A pickle is a program. This interprets only the opcodes that build text, numbers, lists and
dicts; the first other one (a global, a call, a persistent id, an extension) ends the reading.
Tuples become lists, because a nest of shared tuples used as a key takes exponential time to hash.
"""

import pickletools
from collections.abc import Callable
from typing import Any, Final

MAX_OPCODES: Final = 5_000_000

_CONSTANTS: Final[dict[str, Any]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS: Final = frozenset({
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
})  # fmt: skip
_SKIPPED: Final = frozenset({"PROTO", "FRAME"})
_FIXED_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_STORES: Final = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_FETCHES: Final = frozenset({"GET", "BINGET", "LONG_BINGET"})
_KEYS: Final = (str, int, float, bytes, type(None))


class NotPlainError(ValueError):
    """A pickle that is broken, too long, or more than plain data."""


def read_plain_pickle(data: bytes) -> Any:
    """Return the data of a pickle; raises `NotPlainError`."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if opcode.name == "STOP":
                return machine.pop()
            machine.run(opcode.name, argument)
            if count > MAX_OPCODES:
                break
    except NotPlainError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NotPlainError(f"broken pickle ({type(error).__name__})") from error
    raise NotPlainError(f"no end within {MAX_OPCODES} opcodes")


class _Machine:
    """The stack, the marks on it, and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.actions: dict[str, Callable[[], None]] = {
            "MARK": lambda: self.marks.append(len(self.stack)),
            "EMPTY_LIST": lambda: self.stack.append([]),
            "EMPTY_DICT": lambda: self.stack.append({}),
            "LIST": lambda: self.stack.append(self.take()),
            "TUPLE": lambda: self.stack.append(self.take()),
            "DICT": self._dict,
            "APPEND": self._append,
            "APPENDS": self._appends,
            "SETITEM": self._setitem,
            "SETITEMS": self._setitems,
            "MEMOIZE": lambda: self.memo.__setitem__(len(self.memo), self.stack[-1]),
        }

    def run(self, name: str, argument: Any) -> None:
        """Execute one opcode."""
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _STORES:
            self.memo[int(argument)] = self.stack[-1]
        elif name in _FETCHES:
            self.stack.append(self.memo[int(argument)])
        elif name in _FIXED_TUPLES:
            size = _FIXED_TUPLES[name]
            items = [self.pop() for _ in range(size)][::-1]
            self.stack.append(items)
        elif name in self.actions:
            self.actions[name]()
        elif name not in _SKIPPED:
            raise NotPlainError(f"opcode {name} has no place in plain data")

    def pop(self) -> Any:
        """Take the top of the stack."""
        return self.stack.pop()

    def take(self) -> list[Any]:
        """Take everything above the last mark."""
        at = self.marks.pop()
        items = self.stack[at:]
        del self.stack[at:]
        return items

    def _append(self) -> None:
        value = self.pop()
        self._target(list).append(value)

    def _appends(self) -> None:
        items = self.take()
        self._target(list).extend(items)

    def _dict(self) -> None:
        items = self.take()
        self.stack.append({})
        self._fill(items)

    def _setitem(self) -> None:
        value, key = self.pop(), self.pop()
        self._fill([key, value])

    def _setitems(self) -> None:
        self._fill(self.take())

    def _fill(self, items: list[Any]) -> None:
        target = self._target(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise NotPlainError("a key that is neither text nor number")
            target[key] = value

    def _target(self, kind: type) -> Any:
        target = self.stack[-1]
        if not isinstance(target, kind):
            raise NotPlainError(f"{type(target).__name__} where a {kind.__name__} was expected")
        return target
