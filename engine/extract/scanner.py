"""One automaton over large buffers: which signature ends where.

Hyperscan in block mode without start of match (1.1 GB/s for 200 signatures on one core, see
`docs/performance.md`); google-re2's Set over 16 KiB pieces where that wheel is missing, with the
same answers. The book's `scan` expressions are already in automaton form: no variable tail,
never across a line. One database per source, compiled when first needed.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, Protocol

import re2

from engine.extract.recognise import SignatureReader
from engine.model.vocabulary import Source
from engine.rulebook.book import Rulebook, SignatureDef

EngineName = Literal["hyperscan", "re2"]
_PIECE_BYTES: Final = 16 << 10
_MAX_MEMORY: Final = 1 << 28

Hits = list[tuple[int, int]]


class _Automaton(Protocol):
    def hits(self, data: bytes, end: int) -> Hits: ...


class Scanner:
    """Finds the lines of a buffer that some signature of a source may match.

    `problems` lists the signatures that the automaton refused; they never match.
    """

    def __init__(self, book: Rulebook, engine: EngineName) -> None:
        self.engine: EngineName = engine
        self.problems: list[str] = []
        self._book = book
        self._automata: dict[Source, _Automaton | None] = {}
        self._readers: dict[int, SignatureReader] = {}
        self._by_index = {item.index: item for item in book.signatures}

    def scan(self, data: bytes, end: int, source: Source) -> Hits:
        """Return (match end, signature index) pairs in `data[:end]`, sorted, unconfirmed."""
        if source not in self._automata:
            self._automata[source] = self._compile(source)
        automaton = self._automata[source]
        return automaton.hits(data, end) if automaton and end else []

    def reader(self, index: int) -> SignatureReader:
        """The compiled `extract` of signature `index`, compiled when first needed."""
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = SignatureReader(self._by_index[index])
        return reader

    def _compile(self, source: Source) -> _Automaton | None:
        wanted = [item for item in self._book.signatures if source in item.sources]
        if not wanted:
            return None
        if self.engine == "hyperscan":
            return _Hyperscan(wanted, self.problems)
        return _Re2(wanted, self.problems)


def build_scanner(book: Rulebook, engine: EngineName | None = None) -> Scanner:
    """Return a scanner for `book`; without a name the fastest engine that is installed."""
    if engine is None:
        engine = "hyperscan" if find_spec("hyperscan") else "re2"
    return Scanner(book, engine)


def _append(index: int, _start: int, end: int, _flags: int, found: Hits) -> None:
    found.append((end, index))


class _Hyperscan:
    def __init__(self, signatures: list[SignatureDef], problems: list[str]) -> None:
        self._library: Any = import_module("hyperscan")
        usable = [(item, 0) for item in signatures]
        try:
            self._database = self._build(usable)
        except self._library.error:
            self._database = self._build(self._sound(signatures, problems))

    def _build(self, patterns: list[tuple[SignatureDef, int]]) -> Any:
        hs = self._library
        if not patterns:
            return None
        database = hs.Database(mode=hs.HS_MODE_BLOCK)
        database.compile(
            expressions=[item.scan.encode() for item, _ in patterns],
            ids=[item.index for item, _ in patterns],
            elements=len(patterns),
            flags=[
                hs.HS_FLAG_MULTILINE | extra | (hs.HS_FLAG_CASELESS if item.ignore_case else 0)
                for item, extra in patterns
            ],
        )
        return database

    def _sound(
        self, signatures: list[SignatureDef], problems: list[str]
    ) -> list[tuple[SignatureDef, int]]:
        """Each signature with the flags under which it compiles (lookaround needs PREFILTER)."""
        hs = self._library
        sound: list[tuple[SignatureDef, int]] = []
        for item in signatures:
            for flags in (0, hs.HS_FLAG_PREFILTER):
                try:
                    self._build([(item, flags)])
                except hs.error as error:
                    reason = str(error)
                else:
                    sound.append((item, flags))
                    break
            else:
                problems.append(f"{item.rule}/{item.name}: hyperscan refuses it: {reason}")
        return sound

    def hits(self, data: bytes, end: int) -> Hits:
        found: Hits = []
        if self._database is None:
            return found
        with memoryview(data)[:end] as view:
            self._database.scan(view, match_event_handler=_append, context=found)
        if len(found) > 1:
            found.sort()
        return found


class _Re2:
    def __init__(self, signatures: list[SignatureDef], problems: list[str]) -> None:
        options = re2.Options()
        options.max_mem = _MAX_MEMORY
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        self._set = re2.Set.SearchSet(options)
        self._patterns: list[tuple[int, Any]] = []
        for item in signatures:
            flags = "(?mi)" if item.ignore_case else "(?m)"
            try:
                pattern = re2.compile((flags + item.scan).encode(), options)
            except re2.error as error:
                problems.append(f"{item.rule}/{item.name}: re2 refuses it: {error}")
                continue
            self._set.Add((flags + item.scan).encode())
            self._patterns.append((item.index, pattern))
        if self._patterns:
            self._set.Compile()

    def hits(self, data: bytes, end: int) -> Hits:
        found: Hits = []
        start = 0
        while start < end and self._patterns:
            stop = min(start + _PIECE_BYTES, end)
            if stop < end:
                # whole lines only; one longer than a piece is taken whole
                stop = data.rfind(b"\n", start, stop) + 1 or data.find(b"\n", stop, end) + 1 or end
            piece = data[start:stop]
            for place in self._set.Match(piece) or ():
                index, pattern = self._patterns[place]
                found.extend((start + hit, index) for hit in _line_hits(pattern, piece))
            start = stop
        found.sort()
        return found


def _line_hits(pattern: Any, piece: bytes) -> list[int]:
    """The end of the first match on each line."""
    ends: list[int] = []
    place = 0
    while match := pattern.search(piece, place):
        end = max(match.end(), place)
        ends.append(end)
        following = piece.find(b"\n", max(end - 1, place))
        if following < 0:
            break
        place = following + 1
    return ends
