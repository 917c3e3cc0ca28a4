"""The lint of signatures: safe and fast expressions that match their samples and nothing near."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.extract.recognise import SignatureReader
from engine.rulebook.book import SignatureDef
from engine.rulebook.catalogue import BLOCK_FIELDS, FORBIDDEN_CAPTURES, RESERVED_CAPTURES
from engine.rulebook.compile import signature_def
from engine.rulebook.document import (
    FamilyRule,
    Signature,
    SignatureRule,
    SymptomRule,
)
from engine.rulebook.load import LoadedRule, Rule
from engine.rulebook.pattern import (
    MIN_LITERAL_BYTES,
    automaton_form,
    crosses_lines,
    has_variable_tail,
    nested_repeat,
    required_literal,
    rival_repeats,
    starts_with_repeat,
    syntax_error,
)
from engine.rulebook.problem import Problem, suggest
from engine.rulebook.trial import (
    ScanError,
    Scanner,
    build_scanner,
    fallback_hits,
    read_text,
    scanner_of,
)
from engine.rulebook.yamltree import Loc

_GENERIC = 8
_INLINE = re.compile(r"(?<!\\)\(\?(?!P<\w+>|:|=|!|<=|<!)")


@dataclass(slots=True, frozen=True)
class _Placed:
    """A signature with the rule that holds it and its place there."""

    rule: LoadedRule
    document: SymptomRule | SignatureRule | FamilyRule
    index: int
    signature: Signature

    def problem(self, *loc: str | int, message: str) -> Problem:
        return self.rule.problem("signatures", self.index, *loc, message=message)

    @property
    def label(self) -> str:
        return f"{self.document.id}#{self.signature.name}"

    def compiled(self) -> SignatureDef:
        return signature_def(self.document, self.signature)


def check_syntax(rules: Sequence[LoadedRule]) -> list[Problem]:
    """Check that every expression can be read at all, and reads nothing in a way of its own."""
    return [
        rule.problem(*loc, message=f"{loc[-1] if isinstance(loc[-1], str) else loc[-2]}: {wrong}")
        for rule in rules
        for loc, text in _expressions(rule.document)
        if (wrong := _syntax_error(text)) is not None
    ]


def _expressions(document: Rule) -> Iterator[tuple[Loc, str]]:
    if isinstance(document, FamilyRule):
        for index, row in enumerate(document.rows):
            for key, text in (("match_text", row.match_text), ("unless_text", row.unless_text)):
                if text is not None:
                    yield ("rows", index, key), text
    if not isinstance(document, SymptomRule | SignatureRule | FamilyRule):
        return
    for index, signature in enumerate(document.signatures):
        loc: Loc = ("signatures", index)
        yield (*loc, "scan"), signature.scan
        if signature.extract is not None:
            yield (*loc, "extract"), signature.extract
        for number, text in enumerate(signature.unless):
            yield (*loc, "unless", number), text
        for number, text in enumerate(signature.block_has):
            yield (*loc, "block_has", number), text
        for number, text in enumerate(signature.block_lacks):
            yield (*loc, "block_lacks", number), text


def _syntax_error(text: str) -> str | None:
    if (error := syntax_error(text)) is not None:
        return f"not a regular expression: {error}"
    if _INLINE.search(text):
        return "inline flags and conditionals are not allowed (use `ignore_case:`)"
    return None


def check_signatures(rules: Sequence[LoadedRule]) -> list[Problem]:
    """Check each signature by itself, and that no two are the same."""
    scans: dict[tuple[str, str, bool, str], str] = {}
    return [problem for rule in rules for problem in _check_rule(rule, scans)]


def _check_rule(rule: LoadedRule, scans: dict[tuple[str, str, bool, str], str]) -> list[Problem]:
    problems: list[Problem] = []
    names: set[str] = set()
    for placed in _placed(rule):
        name = placed.signature.name
        if name in names:
            message = f"a second signature named {name!r}; give each its own name"
            problems.append(placed.problem("name", message=message))
        names.add(name)
        found = [*_check_expressions(placed)]
        if not found:
            found = [*_check_fields(placed), *_check_texts(placed)]
            found.extend(_check_twins(placed, scans))
        problems.extend(found)
    if isinstance(rule.document, FamilyRule | SignatureRule) and not names:
        message = f"a {rule.document.kind} needs at least one signature"
        problems.append(rule.problem("signatures", message=message))
    broken = any(problem.severity == "error" for problem in problems)
    return problems if broken else [*problems, *_check_rows(rule)]


def check_overlaps(rules: Sequence[LoadedRule]) -> list[Problem]:
    """Warn where a signature of another symptom also matches one of a signature's samples.

    A signature that matches the samples of many is a generic one; it is told of once.
    """
    placed = [item for rule in rules for item in _placed(rule)]
    compiled = [item.compiled() for item in placed]
    if not compiled:
        return []
    scanner = build_scanner([(item.scan, item.ignore_case) for item in compiled])
    matched: dict[int, dict[int, int]] = {}
    for mine, own in enumerate(placed):
        for number, sample in enumerate(own.signature.samples):
            for other in sorted(scanner.hits(sample)):
                if _is_rival(compiled[mine], compiled[other], sample):
                    matched.setdefault(other, {}).setdefault(mine, number)
    return [
        problem
        for other, where in matched.items()
        for problem in _overlap_warnings(placed, other, where)
    ]


def _overlap_warnings(
    placed: Sequence[_Placed], other: int, where: dict[int, int]
) -> Iterator[Problem]:
    rival = placed[other]
    if len(where) > _GENERIC:
        message = f"scan: generic; also matches samples of {len(where)} other signatures"
        yield rival.rule.warning("signatures", rival.index, "scan", message=message)
        return
    for mine, number in where.items():
        own = placed[mine]
        loc = ("signatures", own.index, "samples", number)
        yield own.rule.warning(*loc, message=f"{rival.label} also matches this")


def _is_rival(mine: SignatureDef, other: SignatureDef, sample: str) -> bool:
    if not set(mine.sources) & set(other.sources) or other.rule == mine.rule:
        return False
    theirs = read_text(other, sample)
    own = read_text(mine, sample)
    return theirs is not None and own is not None and theirs.symptom != own.symptom


def _placed(rule: LoadedRule) -> Iterator[_Placed]:
    document = rule.document
    if isinstance(document, SymptomRule | SignatureRule | FamilyRule):
        for index, signature in enumerate(document.signatures):
            yield _Placed(rule, document, index, signature)


def _check_expressions(placed: _Placed) -> Iterator[Problem]:
    try:
        SignatureReader(placed.compiled())
    except re.error as error:
        yield placed.problem("extract", message=f"not a regular expression: {error}")
        return
    yield from _check_scan(placed)
    yield from _check_extract(placed)


def _check_scan(placed: _Placed) -> Iterator[Problem]:
    scan = placed.signature.scan
    if crosses_lines(scan):
        message = r"scan: \n, or \D and \W inside a class, would cross a line; name what is allowed"
        yield placed.problem("scan", message=message)
        return
    form = automaton_form(scan)
    if has_variable_tail(form):
        message = "scan: ends in a variable tail that cannot be cut; end it with fixed text"
        yield placed.problem("scan", message=message)
        return
    literal = required_literal(form)
    if len(literal.encode()) < MIN_LITERAL_BYTES and placed.signature.short_literal is None:
        message = (
            f"scan: the longest text that every match holds is {literal!r}, under "
            f"{MIN_LITERAL_BYTES} bytes, which slows every scan; add fixed text, or say why not "
            "in `short_literal:`"
        )
        yield placed.problem("scan", message=message)
    try:
        scanner_of(form, ignore_case=placed.signature.ignore_case)
        fallback_hits(form, "", ignore_case=placed.signature.ignore_case)
    except ScanError as error:
        yield placed.problem("scan", message=f"scan: the scanner cannot take this: {error}")


def _check_extract(placed: _Placed) -> Iterator[Problem]:
    signature = placed.signature
    key = "scan" if signature.extract is None else "extract"
    text = signature.scan if signature.extract is None else signature.extract
    if nested_repeat(text):
        message = f"{key}: an unbounded repeat inside another may never end; bound the inner one"
        yield placed.problem(key, message=message)
    if rival_repeats(text):
        message = (
            f"{key}: two unbounded repeats can share out the same text, which is slow on hostile "
            "lines; bound them, such as \\d{1,20}, \\S{0,80} or .{0,200}"
        )
        yield placed.problem(key, message=message)
    if starts_with_repeat(text):
        message = f"{key}: starts with an unbounded repeat; start with fixed text"
        yield placed.problem(key, message=message)


def _check_fields(placed: _Placed) -> Iterator[Problem]:
    signature = placed.signature
    compiled = placed.compiled()
    read_by = "scan" if signature.extract is None else "extract"
    captures = set(re.compile(compiled.extract).groupindex)
    for name in sorted(captures):
        if name in FORBIDDEN_CAPTURES:
            yield placed.problem(read_by, message=f"capture {name!r}: {FORBIDDEN_CAPTURES[name]}")
    if signature.block is not None and signature.block not in BLOCK_FIELDS:
        message = (
            f"block: unknown block {signature.block!r}{suggest(signature.block, BLOCK_FIELDS)}"
        )
        yield placed.problem("block", message=message)
    for key in ("block_has", "block_lacks"):
        if getattr(signature, key) and signature.block is None:
            message = f"{key}: there is no block to look at; name one with `block:`"
            yield placed.problem(key, message=message)
    fields = captures | set(signature.set) | BLOCK_FIELDS.get(signature.block or "", frozenset())
    document = placed.document
    family_key = (document.key,) if isinstance(document, FamilyRule) else ()
    onset = (signature.onset.field,) if signature.onset and signature.onset.field else ()
    for key, names in (
        ("identity", signature.identity),
        ("when", tuple(signature.when)),
        ("onset", onset),
        (read_by, family_key),
    ):
        known = captures if key == "when" else fields
        for name in names:
            if name not in known:
                message = f"{key}: nothing captures {name!r}{suggest(name, known)}"
                yield placed.problem(key, message=message)
    for name in sorted(captures - RESERVED_CAPTURES - set(FORBIDDEN_CAPTURES)):
        near = suggest(name, RESERVED_CAPTURES - captures, cutoff=0.8)
        if near and name not in (*signature.identity, *signature.when, *onset, *family_key):
            yield placed.rule.warning(
                "signatures",
                placed.index,
                read_by,
                message=f"capture {name!r} has no meaning of its own{near}",
            )


def _check_texts(placed: _Placed) -> Iterator[Problem]:
    signature = placed.signature
    compiled = placed.compiled()
    scanner = scanner_of(compiled.scan, ignore_case=compiled.ignore_case)
    if not signature.samples:
        yield placed.problem("samples", message="samples: give at least one real line")
    for number, text in enumerate(signature.samples):
        if missed := _missed(compiled, scanner, text):
            yield placed.problem("samples", number, message=f"sample {number + 1}: {missed}")
    for number, text in enumerate(signature.near_misses):
        if scanner.hits(text) and read_text(compiled, text) is not None:
            message = f"near miss {number + 1}: this line matches, and must not"
            yield placed.problem("near_misses", number, message=message)


def _missed(compiled: SignatureDef, scanner: Scanner, text: str) -> str | None:
    if not scanner.hits(text):
        return f"scan does not match it (as the scanner sees it: {compiled.scan})"
    if not fallback_hits(compiled.scan, text, ignore_case=compiled.ignore_case):
        return f"the fallback scanner (RE2) does not find scan in it: {compiled.scan}"
    if read_text(compiled, text) is not None:
        return None
    pattern = re.compile(compiled.extract, re.IGNORECASE if compiled.ignore_case else 0)
    if not any(pattern.search(piece) for piece in (*text.split("\n"), text)):
        return "scan matches, extract does not"
    return "scan and extract match, but `when` or `unless` excludes it"


def _check_twins(
    placed: _Placed, scans: dict[tuple[str, str, bool, str], str]
) -> Iterator[Problem]:
    compiled = placed.compiled()
    conditions = f"{compiled.when}{compiled.unless}{compiled.extract}"
    for source in compiled.sources:
        key = (source, compiled.scan, compiled.ignore_case, conditions)
        first = scans.setdefault(key, placed.label)
        if first != placed.label:
            message = f"scan: the same expression as {first}; one line has one signature"
            yield placed.problem("scan", message=message)
            return


def _check_rows(rule: LoadedRule) -> Iterator[Problem]:
    """A family row's own samples must be read by a signature and land on that row."""
    document = rule.document
    if not isinstance(document, FamilyRule):
        return
    signatures = [item.compiled() for item in _placed(rule)]
    captures = {name for item in signatures for name in re.compile(item.extract).groupindex}
    for index, row in enumerate(document.rows):
        for name in sorted(set(row.when) - captures):
            message = f"when: nothing captures {name!r}{suggest(name, captures)}"
            yield rule.problem("rows", index, "when", message=message)
        for number, text in enumerate(row.samples):
            read = [read_text(item, text) for item in signatures]
            found = [reading.symptom for reading in read if reading is not None]
            if row.symptom not in found:
                said = f"means {found[0]!r}" if found else "is matched by no signature"
                message = f"sample {number + 1} of row {index + 1} {said}"
                yield rule.problem("rows", index, "samples", number, message=message)
