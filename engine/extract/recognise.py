"""One signature on one line: confirm, capture, and look the code up in its family's table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.extract.subject import ENTITY_FIELDS, POINTERS
from engine.rulebook.book import FamilyCase, SignatureDef

LONG_LINE_BYTES: Final = 8192
_BEFORE_BYTES: Final = 6144  # of a long line, what is read before the end of the match ...
_AFTER_BYTES: Final = 2048  # ... and after it: backtracking is quadratic in the worst case


@dataclass(slots=True, frozen=True)
class Reading:
    """What a line says: the symptom, the captured fields, and where in the text it says so."""

    symptom: str
    fields: dict[str, str]
    start: int


@dataclass(slots=True, frozen=True)
class _Row:
    codes: frozenset[str]
    when: dict[str, tuple[str, ...]]
    match_text: re.Pattern[str] | None
    unless_text: re.Pattern[str] | None
    symptom: str


class SignatureReader:
    """The compiled `extract` of one signature with its conditions."""

    def __init__(self, signature: SignatureDef) -> None:
        self.signature = signature
        flags = re.IGNORECASE if signature.ignore_case else 0
        pattern = re.compile(signature.extract, flags)
        self._search = pattern.search
        self._unless = [re.compile(pattern, flags) for pattern in signature.unless]
        self._has = [re.compile(pattern, flags) for pattern in signature.block_has]
        self._lacks = [re.compile(pattern, flags) for pattern in signature.block_lacks]
        self.looks_at_block = bool(self._has or self._lacks)
        self._rows = [_row(case) for case in signature.family]
        self._rows_of: dict[str, list[_Row]] = {}
        for row in self._rows:
            for code in sorted(row.codes):
                self._rows_of.setdefault(code, []).append(row)
        self.reads_groups_alone = not self._unless and not any(
            row.match_text or row.unless_text for row in self._rows
        )
        """Whether what a line says depends on what `extract` captures and on nothing else."""
        self.says_one_thing = self.reads_groups_alone and not (
            signature.when or self._rows or POINTERS & {*signature.identity}
        )
        """Whether every line that `extract` holds on says the same symptom; which facts it tells
        apart does not depend on what a prefix points at."""
        self.captures_nothing = not pattern.groupindex and not signature.when
        decisive = {*signature.identity, *ENTITY_FIELDS, signature.family_key, *signature.when}
        for row in self._rows:
            decisive.update(row.when)
        self.decisive_names = sorted(name for name in pattern.groupindex if name in decisive)
        self._decisive = [pattern.groupindex[name] for name in self.decisive_names]

    def decisive(self, text: str) -> tuple[str | None, ...] | None:
        """The captures that symptom, entity and identity depend on; None without a match."""
        match = self._search(text)
        return None if match is None else tuple([match[number] for number in self._decisive])

    def holds_in(self, lines: Sequence[str]) -> bool:
        """Whether the block with these `lines` (none: a line alone) is one it means."""
        if self._has and not any(each.search(line) for each in self._has for line in lines):
            return False
        return not any(each.search(line) for each in self._lacks for line in lines)

    def read(self, text: str) -> Reading | None:
        """Return what `text` says, None where the signature does not hold."""
        match = self._search(text)
        if match is None:
            return None
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        for name, allowed in self.signature.when.items():
            if fields.get(name, "") not in allowed:
                return None
        if any(pattern.search(text) for pattern in self._unless):
            return None
        fields.update(self.signature.set)
        return Reading(self._symptom(fields, text), fields, match.start())

    def _symptom(self, fields: dict[str, str], text: str) -> str:
        if not self._rows:
            return self.signature.symptom
        code = fields.get(self.signature.family_key or "", "")
        for row in self._rows_of.get(code, ()):
            if _row_holds(row, fields, text):
                return row.symptom
        return self.signature.symptom


def reading_window(start: int, end: int, hit: int) -> tuple[int, int]:
    """The part of the line `[start, end)` to read for a match that ended at `hit`."""
    if end - start <= LONG_LINE_BYTES:
        return start, end
    return max(start, hit - _BEFORE_BYTES), min(end, hit + _AFTER_BYTES)


def _row(case: FamilyCase) -> _Row:
    return _Row(
        codes=frozenset(case.codes),
        when=case.when,
        match_text=re.compile(case.match_text) if case.match_text else None,
        unless_text=re.compile(case.unless_text) if case.unless_text else None,
        symptom=case.symptom,
    )


def _row_holds(row: _Row, fields: dict[str, str], text: str) -> bool:
    if any(fields.get(name, "") not in allowed for name, allowed in row.when.items()):
        return False
    if row.match_text and not row.match_text.search(text):
        return False
    return not (row.unless_text and row.unless_text.search(text))
