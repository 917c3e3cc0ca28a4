"""What stands round the stamp at the start of a line, as bytes: enough to know the writer again.

Mirrors `demux` and `stamp_forms` for the forms that storms come in; `Express` checks each new
frame against both before it relies on it.
"""

import re
from typing import Final

from engine.model.stream import StreamLabel

_CLOCK: Final = rb"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:[.,:]\d{1,9}(?!\d))?)"
_ZONE: Final = rb"( ?(?>Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b)|)"
_ISO_DATE: Final = rb"\d{4}[-/]\d\d[-/]\d\d[T _]"
_MARK: Final = (
    rb"(?>\[rank ?\d{1,7}\]:? ?|\[\d{1,6},\d{1,7}\]<std(?:out|err|diag)> ?: ?|\[default\d{1,4}\]: ?"
    rb"|\[?pod/[\w.\-]{1,253}/[\w.\-]{1,63}\]?:? ?"
    rb"|\([\w.:<>\- ]{0,80}? ?pid=\d{1,9}(?:, ip=[\w.:\-]{1,64})?\)"
    rb"(?: \[repeated \d+x[^\]\n]{0,60}\])? ?)"
)
_NCCL: Final = rb"(?>[A-Za-z0-9][\w.\-]{0,200}:\d{1,9}:\d{1,9} \[\d{1,3}\] )?+"
# What may not follow: text that might be one more prefix or stamp.
_PLAIN_TEXT: Final = rb"(?![\d ]|\[\d)"


def _application(srun: bytes) -> re.Pattern[bytes]:
    return re.compile(
        rb"(" + srun + _MARK + rb"{0,4}+[\[(]?)"
        rb"(" + _ISO_DATE + rb"|[IWEFD]\d{3,4} )" + _CLOCK + _ZONE
        + rb"(\]?+:?+ ?+(?>std(?:out|err) [FP] )?+" + _MARK + rb"{0,4}+" + _NCCL + rb")"
        + _PLAIN_TEXT
    )  # fmt: skip


# [rank3]:[E626 06:24:44.448988908 ..., 2025-06-26 06:10:12,118 node-1:7:8 [3] NCCL WARN ...
_PLAIN: Final = _application(b"")
_LABELLED: Final = _application(rb"(?> {0,6}\d{1,7}: ?)?+")  # srun --label
# Mar  6 20:00:14 node-1 kernel: [12.5] NVRM: ..., 2025-03-06T20:00:14.5+01:00 node-1 slurmd[7]: x
_SYSLOG: Final = re.compile(
    rb"((?:<\d{1,3}>)?)([A-Z][a-z]{2} {1,2}\d{1,2} |\d{4}-\d\d-\d\d[T ])" + _CLOCK
    + rb"((?>Z|[+-]\d\d:?\d\d)?)( [\w.\-:]{1,128} [\w./\-@]{1,128}(?:\[\d{1,9}\])?: ?)"
)  # fmt: skip
_UPTIME: Final = re.compile(rb"((?:<\d{1,3}>)?\[)()( {0,12}\d{1,9}\.\d{2,9})()(\])")
_UNDATED: Final = re.compile(_MARK + rb"{0,5}+" + _NCCL)
_UNDATED_LABELLED: Final = re.compile(rb"(?> {0,6}\d{1,7}: ?)?+" + _MARK + rb"{0,5}+" + _NCCL)
_CLOCK_LIKE: Final = re.compile(rb"\d:\d\d:\d|\d{10}")
_NAMED_RANK: Final = re.compile(rb"\[(?:PG [^\]\n]{0,120} )?[Rr]ank:? \d{1,7}\]")
_HEAD_BYTES: Final = 240

Shape = tuple[bytes, bytes, int]
Frame = tuple[bytes, Shape, bytes]
"""The writer's key, the shape of the stamp, and the stamp: two stamps of one shape sort as times.

A shape is the date, the zone and the length; within it only the clock (or the uptime) differs.
"""
UNDATED: Final[Shape] = (b"", b"", 0)


class FrameReader:
    """Reads frames of one stream."""

    def __init__(self, label: StreamLabel, *, has_srun: bool) -> None:
        self._is_syslog = label.source == "syslog"
        # a rank before the line stands; only without one is a rank named further on looked for
        self._rank_starts = tuple(b"%c" % char for char in b" 0123456789") if has_srun else ()
        self._undated = (_UNDATED_LABELLED if has_srun else _UNDATED).match
        self._match = (
            _SYSLOG.match if self._is_syslog else (_LABELLED if has_srun else _PLAIN).match
        )

    def read(self, raw: bytes) -> Frame | None:
        """The frame of a line, None where it starts in no form known here."""
        match = self._match(raw)
        if match is None and self._is_syslog:
            match = _UPTIME.match(raw)
        if match is None:
            return None
        before, date, clock, zone, behind = match.groups()
        key = before + b"\0" + behind
        if not self._is_syslog:
            if b"NCCL" in raw:
                if raw[match.end() : match.end() + 1] == b"[":
                    return None
                key += b"\1"
            if (
                before[:1] not in self._rank_starts
                and b"ank" in raw[:_HEAD_BYTES]
                and (named := _NAMED_RANK.search(raw, 0, _HEAD_BYTES))
            ):
                key += named[0]
        return key, (date, zone, len(clock)), clock

    def read_undated(self, raw: bytes) -> Frame | None:
        """The frame of a line of a job's output that surely holds no stamp."""
        if self._is_syslog or _CLOCK_LIKE.search(raw):
            return None
        match = self._undated(raw)
        key = match[0] if match else b""
        if b"NCCL" in raw:
            key += b"\1"
        if b"ank" in raw[:_HEAD_BYTES]:
            named = _NAMED_RANK.search(raw, 0, _HEAD_BYTES)
            key += b"\2" + (named[0] if named else b"")
        return key, UNDATED, b""


def stamp_text(shape: Shape, clock: bytes) -> str:
    """The stamp alone, as a line that holds nothing else."""
    date, zone, _ = shape
    if not date:
        return f"[{clock.decode()}]"
    return (date + clock + zone).decode()
