"""The lines round a piece of evidence, read again from the bundle while that is still there."""

import json
import re
from dataclasses import dataclass
from typing import Final

from connectors.protocol import ConnectorError
from engine.extract.decode import DecodedStream
from engine.extract.redact import Redactor
from engine.model.plan import Plan
from engine.model.verdict import Evidence
from functions.adapters.keys import plan_key
from functions.adapters.object_store import ObjectMissingError, ObjectStore
from functions.adapters.results import Result

MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""So far into a stream its lines are looked for; beyond it the excerpt has to do."""
_AROUND_BYTES: Final = 16 * 1024
_BUNDLE: Final = re.compile(r"s3://[^/]+/(bundles/.+)")
"""`s3://rootrank-bucket-1yr6/bundles/night-7/`."""


@dataclass(slots=True, frozen=True)
class Line:
    """One line, redacted; `is_evidence` marks the lines that were cited."""

    number: int
    text: str
    is_evidence: bool


@dataclass(slots=True, frozen=True)
class Context:
    """Lines in order, or why there are none."""

    lines: tuple[Line, ...] = ()
    reason: str | None = None


@dataclass(slots=True, frozen=True)
class ContextReader:
    """Reads context of one result's evidence; what people see is redacted as excerpts were."""

    store: ObjectStore
    redactor: Redactor
    max_read_bytes: int = MAX_READ_BYTES

    def read(self, result: Result, evidence: Evidence, *, around: int) -> Context:
        """Return up to `around` lines before and after the cited ones."""
        if evidence.connector != "static":
            return Context(
                reason=f"only the excerpt was kept: it was read live by the connector "
                f"{evidence.connector}"
            )
        reason = "the bundle is no longer in the bucket; its lifetime is EvidenceDays"
        for prefix in self._bundles(result):
            key = prefix + evidence.uri.partition("#")[0]
            try:
                return self._read(key, evidence, around=around)
            except ObjectMissingError:
                continue
            except ConnectorError as error:
                reason = f"the bundle cannot be read now ({type(error).__name__})"
        return Context(reason=reason)

    def _bundles(self, result: Result) -> list[str]:
        """Return the prefixes that the attempt's first plans read, all below `bundles/`."""
        found: list[str] = []
        for generation in range(result.generation or 1, 0, -1):
            try:
                body, _ = self.store.get(plan_key(result.attempt_key, generation, 1))
            except ObjectMissingError:
                continue
            for item in Plan.model_validate(json.loads(body)).items:
                # Bundles are read from the stack's own bucket only, whatever it was called then.
                where = _BUNDLE.match(item.base_uri or "")
                if where is not None and where[1] not in found:
                    found.append(where[1])
        return found

    def _read(self, key: str, evidence: Evidence, *, around: int) -> Context:
        start = max(0, evidence.byte_offset - _AROUND_BYTES)
        end = evidence.byte_offset + evidence.byte_length + _AROUND_BYTES
        if end > self.max_read_bytes:
            return Context(reason="it lies too far into its stream to be looked up here")
        body = self.store.open(key)
        try:
            stream = DecodedStream(body.read)
            window, place = b"", 0
            while place < end and (piece := stream.next_piece()):
                if place + len(piece) > start:
                    window += piece[max(0, start - place) : end - place]
                place += len(piece)
        finally:
            body.close()
        return _cut(
            window, evidence, self.redactor, before=evidence.byte_offset - start, around=around
        )


def _cut(
    window: bytes, evidence: Evidence, redactor: Redactor, *, before: int, around: int
) -> Context:
    head, rest = window[:before], window[before:]
    cited = rest[: evidence.byte_length].rstrip(b"\r\n")
    tail = rest[len(cited) :]
    earlier = head.split(b"\n")[-around - 1 :]
    begun = earlier.pop() if earlier else b""
    ended, *later = tail.split(b"\n")[: around + 1]
    middle = (begun + cited + ended).split(b"\n")
    numbered = [(each, False) for each in earlier]
    numbered += [(each, True) for each in middle]
    numbered += [(each, False) for each in later]
    text = redactor.text("\n".join(_decoded(each) for each, _ in numbered)).split("\n")
    if len(text) != len(numbered):
        # A pattern that spans lines was masked: what it leaves cannot be numbered line by line.
        text = [redactor.text(_decoded(each)) for each, _ in numbered]
    first = evidence.line - len(earlier)
    lines = tuple(
        Line(first + index, text[index], is_evidence)
        for index, (_, is_evidence) in enumerate(numbered)
    )
    if lines and not lines[-1].text:
        lines = lines[:-1]
    return Context(lines)


def _decoded(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")
