"""A strict reading of one YAML file: text scalars, lists and mappings, with every position.

What a rule says must be what it means, so there are no implicit types (`no` and `1:0` are text;
the model types them), no anchors, aliases, tags, merges or further documents, and no key twice.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml

from engine.rulebook.problem import Problem

Loc = tuple[str | int, ...]
Place = tuple[int, int]

_Parser = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_DEPTH = 20


@dataclass(slots=True)
class YamlTree:
    """The value of a file and where each part of it stands (line and column from 1)."""

    path: str
    value: Any = None
    values: dict[Loc, Place] = field(default_factory=dict)
    keys: dict[Loc, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, loc: Loc, *, of_key: bool = False) -> Place:
        """The position of `loc`, or of its nearest ancestor that the file has."""
        if of_key and loc in self.keys:
            return self.keys[loc]
        for length in range(len(loc), -1, -1):
            if loc[:length] in self.values:
                return self.values[loc[:length]]
        return (1, 1)

    def problem(self, loc: Loc, message: str, *, of_key: bool = False) -> Problem:
        """An error at the position of `loc`."""
        return Problem(self.path, *self.place(loc, of_key=of_key), message)


def read_yaml_tree(path: str, data: bytes) -> YamlTree:
    """Read one file; whatever is wrong with it is in `problems`, and then `value` may be None."""
    tree = YamlTree(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        tree.problems.append(Problem(path, line, 1, "not UTF-8 text; save the file as UTF-8"))
        return tree
    try:
        _Builder(tree, text).build()
    except yaml.MarkedYAMLError as error:
        tree.value = None
        tree.problems.append(_syntax_problem(path, error))
    except yaml.YAMLError as error:
        tree.value = None
        tree.problems.append(Problem(path, 1, 1, f"not YAML: {error}"))
    return tree


def _syntax_problem(path: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    text = str(error.problem or error.context or "cannot be read").strip()
    hint = ""
    if "escape" in text:
        hint = "; in double quotes a backslash starts an escape: use single quotes or a | block"
    elif "mapping values are not allowed" in text or "expected <block end>" in text:
        hint = "; quote a text that holds ': ' or starts with a special character"
    elif "cannot start any token" in text:
        hint = "; quote the text, and indent with spaces, not tabs"
    return Problem(path, line, column, f"not YAML: {text}{hint}")


def _place(event: Any) -> Place:
    return (event.start_mark.line + 1, event.start_mark.column + 1)


class _Builder:
    """Walks the parser's events once; recursion depth is bounded."""

    def __init__(self, tree: YamlTree, text: str):
        self._tree = tree
        self._events = yaml.parse(text, Loader=_Parser)

    def build(self) -> None:
        """Fill the tree from the first document and refuse any other."""
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._complain(event, "a second YAML document; one file holds one rule")
                    return
                if event.tags or event.version:
                    self._complain(event, "YAML directives are not allowed")
                self._tree.value = self._node(next(self._events), (), 0)
        if documents == 0:
            self._tree.problems.append(Problem(self._tree.path, 1, 1, "the file is empty"))

    def _complain(self, event: Any, message: str) -> None:
        self._tree.problems.append(Problem(self._tree.path, *_place(event), message))

    def _node(self, event: Any, loc: Loc, depth: int) -> Any:
        self._tree.values[loc] = _place(event)
        if isinstance(event, yaml.AliasEvent):
            self._complain(event, f"alias *{event.anchor}: write the value out")
            return ""
        if event.anchor is not None:
            self._complain(event, f"anchor &{event.anchor}: anchors and aliases are not allowed")
        if event.tag is not None:
            self._complain(event, f"tag {event.tag}: types come from the rule model, not from tags")
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if depth >= _MAX_DEPTH:
            self._complain(event, f"nested deeper than {_MAX_DEPTH} levels")
            self._skip()
            return ""
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(loc, depth)
        return self._mapping(loc, depth)

    def _sequence(self, loc: Loc, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*loc, len(items)), depth + 1))
        return items

    def _mapping(self, loc: Loc, depth: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._complain(event, "a key must be plain text")
                if not isinstance(event, yaml.AliasEvent):
                    self._skip()
                self._node(next(self._events), (*loc, "?"), depth + 1)
                continue
            key = event.value
            place = _place(event)
            if key in items:
                first = self._tree.keys[(*loc, key)][0]
                self._complain(event, f"key {key!r} is given twice (first on line {first})")
                self._node(next(self._events), (*loc, "?"), depth + 1)
                continue
            if event.anchor is not None or event.tag is not None:
                self._complain(event, "anchors and tags are not allowed")
            self._tree.keys[(*loc, key)] = place
            items[key] = self._node(next(self._events), (*loc, key), depth + 1)
        return items

    def _skip(self) -> None:
        depth = 1
        while depth:
            event = next(self._events)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
