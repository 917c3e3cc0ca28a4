"""One automaton over large buffers: which signature ends where.

Hyperscan in block mode without start of match (1.1 GB/s for 200 signatures on one core, see
`docs/benchmarks.md`); google-re2's Set over 16 KiB pieces where that wheel is missing, with the
same answers. The book's `scan` expressions are already in automaton form: no variable tail,
never across a line. One database per source, compiled when first needed or taken from a shelf
that the caller brings: compiling takes some 0.2 s per 200 signatures, loading 0.1 ms.
"""

import hashlib
import lzma
import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, Protocol, get_args

import msgspec

from engine.extract.recognise import SignatureReader
from engine.extract.traceback import HEADER
from engine.model.vocabulary import Source
from engine.rulebook.book import Rulebook, SignatureDef
from engine.rulebook.pattern import automaton_form

EngineName = Literal["hyperscan", "re2"]
_PIECE_BYTES: Final = 16 << 10
_MAX_MEMORY: Final = 1 << 28

Hits = list[tuple[int, int]]


class DatabaseShelf(Protocol):
    """Where compiled databases are kept, by a name that covers library and signatures."""

    def take(self, name: str) -> bytes | None:
        """The bytes put under this name; None where there are none."""

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes, if that is possible."""


class _Automaton(Protocol):
    prefiltered: frozenset[int]
    problems: tuple[str, ...]

    def hits(self, data: bytes, end: int) -> Hits: ...


class Scanner:
    """Finds the lines of a buffer that some signature of a source may match.

    `problems` lists the signatures that the automaton refused; they never match. Threads may
    share a scanner.
    """

    def __init__(
        self, book: Rulebook, engine: EngineName, *, shelf: DatabaseShelf | None = None
    ) -> None:
        self.engine: EngineName = engine
        self.problems: list[str] = []
        self._book = book
        self._shelf = shelf
        self._automata: dict[Source, _Automaton | None] = {}
        self._readers: dict[int, SignatureReader] = {}
        self._by_index = {item.index: item for item in book.signatures}
        self.report_sources = frozenset(
            source
            for item in book.signatures
            if item.block == "elastic_report"
            for source in item.sources
        )
        """Sources in which a launcher's table of failures is read."""
        self.generic = frozenset(
            item.rule
            for item in book.signatures
            if item.block == "python_traceback" and re.search(item.scan, HEADER)
        )
        """Rules that read any traceback: their other line forms count only where nothing else
        reads the line and no traceback stands above it."""

    def scan(self, data: bytes, end: int, source: Source) -> Hits:
        """Return (match end, signature index) pairs in `data[:end]`, sorted, unconfirmed."""
        automaton = self._automaton(source)
        return automaton.hits(data, end) if automaton and end else []

    def prepare(self) -> None:
        """Make the automata of all sources ready."""
        for source in get_args(Source):
            self._automaton(source)

    def reader(self, index: int) -> SignatureReader:
        """The compiled `extract` of signature `index`, compiled when first needed."""
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = SignatureReader(self._by_index[index])
        return reader

    def decides(self, index: int, source: Source) -> bool:
        """Whether a hit alone says that a signature's `extract` holds on an ASCII line."""
        automaton = self._automaton(source)
        if automaton is None or index in automaton.prefiltered:
            return False
        signature = self._by_index[index]
        return signature.scan == automaton_form(signature.extract)

    def _automaton(self, source: Source) -> _Automaton | None:
        if source not in self._automata:
            automaton = self._automata[source] = self._compile(source)
            if automaton is not None:
                self.problems += [each for each in automaton.problems if each not in self.problems]
        return self._automata[source]

    def _compile(self, source: Source) -> _Automaton | None:
        wanted = [item for item in self._book.signatures if source in item.sources]
        if not wanted:
            return None
        if self.engine == "hyperscan":
            return _Hyperscan.of(wanted, self._shelf)
        return _Re2(wanted)


def build_scanner(
    book: Rulebook, engine: EngineName | None = None, *, shelf: DatabaseShelf | None = None
) -> Scanner:
    """Return a scanner for `book`; without a name the fastest engine that is installed."""
    if engine is None:
        engine = "hyperscan" if find_spec("hyperscan") else "re2"
    return Scanner(book, engine, shelf=shelf)


def _append(index: int, _start: int, end: int, _flags: int, found: Hits) -> None:
    found.append((end, index))


class _Saved(msgspec.Struct, frozen=True):
    """A compiled database as it lies on a shelf; the digest is of the dump itself. LZMA makes
    a twelfth of it where zlib makes a seventh, and the artifact has room for no more; opening
    all that ship takes 10 ms.
    """

    prefiltered: tuple[int, ...]
    problems: tuple[str, ...]
    sha256: str
    database: bytes


_saved_decoder = msgspec.msgpack.Decoder(_Saved)


class _Hyperscan:
    def __init__(
        self, database: Any, prefiltered: tuple[int, ...], problems: tuple[str, ...]
    ) -> None:
        self.prefiltered = frozenset(prefiltered)
        self.problems = problems
        self._library: Any = import_module("hyperscan")
        self._database = database
        self._spare: list[Any] = []  # scratch spaces: a scan in another thread needs its own

    @classmethod
    def of(cls, signatures: list[SignatureDef], shelf: DatabaseShelf | None) -> "_Hyperscan":
        """The automaton of the signatures, from the shelf if it lies there."""
        if shelf is None:
            return cls(*_built(signatures))
        name = _name_of(signatures)
        data = shelf.take(name)
        found = _loaded(data) if data else None
        if found is None:
            found = _built(signatures)
            database, prefiltered, problems = found
            if database is not None:
                dump: bytes = import_module("hyperscan").dumpb(database)
                digest = hashlib.sha256(dump).hexdigest()
                saved = _Saved(prefiltered, problems, digest, lzma.compress(dump))
                shelf.put(name, msgspec.msgpack.encode(saved))
        return cls(*found)

    def hits(self, data: bytes, end: int) -> Hits:
        found: Hits = []
        if self._database is None:
            return found
        try:
            scratch = self._spare.pop()
        except IndexError:
            scratch = self._library.Scratch(self._database)
        with memoryview(data)[:end] as view:
            self._database.scan(view, match_event_handler=_append, context=found, scratch=scratch)
        self._spare.append(scratch)
        if len(found) > 1:
            found.sort()
        return found


_Built = tuple[Any, tuple[int, ...], tuple[str, ...]]


def _name_of(signatures: list[SignatureDef]) -> str:
    """Covers the library's version and all that is compiled; both architectures share dumps."""
    hs = import_module("hyperscan")
    parts = [[item.index, item.scan, item.ignore_case, item.rule, item.name] for item in signatures]
    digest = hashlib.sha256(msgspec.json.encode([hs.__version__, parts])).hexdigest()
    return f"hyperscan-{digest[:32]}"


def _loaded(data: bytes) -> _Built | None:
    """The database of a shelf's bytes; None where they are damaged or of another library."""
    hs: Any = import_module("hyperscan")
    try:
        saved = _saved_decoder.decode(data)
        dump = lzma.decompress(saved.database)
        if hashlib.sha256(dump).hexdigest() != saved.sha256:
            return None
        database = hs.loadb(dump, hs.HS_MODE_BLOCK)
    except (msgspec.MsgspecError, lzma.LZMAError, hs.error):
        return None
    return database, saved.prefiltered, saved.problems


def _built(signatures: list[SignatureDef]) -> _Built:
    hs: Any = import_module("hyperscan")
    try:
        return _database([(item, 0) for item in signatures]), (), ()
    except hs.error:
        sound, problems = _sound(signatures)
    prefiltered = tuple(item.index for item, flags in sound if flags)
    return _database(sound), prefiltered, tuple(problems)


def _database(patterns: list[tuple[SignatureDef, int]]) -> Any:
    hs: Any = import_module("hyperscan")
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


def _sound(signatures: list[SignatureDef]) -> tuple[list[tuple[SignatureDef, int]], list[str]]:
    """Each signature with the flags under which it compiles (lookaround needs PREFILTER)."""
    hs: Any = import_module("hyperscan")
    sound: list[tuple[SignatureDef, int]] = []
    problems: list[str] = []
    for item in signatures:
        for flags in (0, hs.HS_FLAG_PREFILTER):
            try:
                _database([(item, flags)])
            except hs.error as error:
                reason = str(error)
            else:
                sound.append((item, flags))
                break
        else:
            problems.append(f"{item.rule}/{item.name}: hyperscan refuses it: {reason}")
    return sound, problems


class _Re2:
    prefiltered: frozenset[int] = frozenset()

    def __init__(self, signatures: list[SignatureDef]) -> None:
        re2: Any = import_module("re2")
        problems: list[str] = []
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
        self.problems = tuple(problems)

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
