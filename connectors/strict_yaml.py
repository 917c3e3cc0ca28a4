"""YAML as people write it for us: scalars are text, keys are unique, every value has a place.

`1:0`, `no` and `0012` mean what they say. Tags and aliases are refused: neither has a use here,
and both are ways to make a small file expensive.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml

MAX_BYTES = 16 * 1024 * 1024
_MAX_DEPTH = 16
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS = ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in _KINDS)
"""What YAML resolves plain values to; all of it is read as text, everything else is refused."""

Path = tuple[str | int, ...]


class StrictYamlError(ValueError):
    """What is wrong and where, as `line:column: message`."""


@dataclass(slots=True)
class Placed:
    """A value tree of dict, list, str and None, and where each node and key was written."""

    value: Any
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def place(self, path: Path) -> tuple[int, int]:
        """Return (line, column), from 1, of the node at `path` or of its nearest ancestor."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))


def read_yaml(data: bytes) -> Placed:
    """Read one YAML document; raises `StrictYamlError`."""
    if len(data) > MAX_BYTES:
        raise StrictYamlError(f"1:1: the file is larger than {MAX_BYTES // 1024**2} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise StrictYamlError(f"{line}:1: not UTF-8 text; save the file as UTF-8") from error
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise StrictYamlError(f"{place}: not valid YAML ({problem})") from error
    except (ValueError, RecursionError) as error:
        raise StrictYamlError(f"1:1: not valid YAML ({type(error).__name__})") from error
    placed = Placed(None)
    if node is not None:
        placed.value = _plain(node, (), placed=placed, seen=set())
    return placed


def _at(node: yaml.Node) -> str:
    return f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _plain(node: yaml.Node, path: Path, *, placed: Placed, seen: set[int]) -> Any:
    if id(node) in seen:
        raise StrictYamlError(f"{_at(node)}: aliases (*name) are not allowed; write the value out")
    if len(path) > _MAX_DEPTH:
        raise StrictYamlError(f"{_at(node)}: nested deeper than {_MAX_DEPTH} levels")
    if node.tag not in _TAGS:
        raise StrictYamlError(f"{_at(node)}: tags ({node.tag}) are not allowed; remove it")
    seen.add(id(node))
    placed.places[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.ScalarNode):
        is_null = node.style is None and node.value in ("", "~", "null", "Null", "NULL")
        return None if is_null else node.value
    if isinstance(node, yaml.SequenceNode):
        return [
            _plain(each, (*path, index), placed=placed, seen=seen)
            for index, each in enumerate(node.value)
        ]
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise StrictYamlError(f"{_at(key)}: a key must be plain text")
        if key.value in result:
            first = placed.places[(*path, key.value)]
            raise StrictYamlError(
                f"{_at(key)}: duplicate key {key.value!r}, first on line {first[0]}; keep one"
            )
        result[key.value] = _plain(value, (*path, key.value), placed=placed, seen=seen)
        placed.places[(*path, key.value)] = (key.start_mark.line + 1, key.start_mark.column + 1)
    return result
