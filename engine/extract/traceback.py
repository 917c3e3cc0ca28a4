"""Python tracebacks: plain, chained, prefixed line by line, in a rich box, wrapped by Ray."""

import re
from dataclasses import dataclass, field
from typing import Final

from engine.extract.demux import Identity
from engine.extract.segment import Line
from engine.extract.window import Window

HEADER: Final = "Traceback (most recent call last)"
MAX_LINES: Final = 600
_MESSAGE_LINES: Final = 12  # of a message that goes on, searched for the text that links a chain
_TAIL_LINES: Final = 12  # lines behind the last exception that still belong to its message
_CAUSE: Final = "The above exception was the direct cause of the following exception:"
_CONTEXT: Final = "During handling of the above exception, another exception occurred:"
_FRAME: Final = re.compile(
    r"^\s{0,16}File [\"']([^\"'\n]{1,1024})[\"'], line \d+(?:, in (.{1,200}))?$"
)
_BOX_FRAME: Final = re.compile(r"^\s{0,8}[│|]\s{0,4}(\S[^│\n]{0,1024}?):(\d+) in (\S{1,200})")
# Ray names the class that a task raised in brackets: `RayTaskError(ValueError): ray::f() (...)`.
_EXCEPTION: Final = re.compile(r"^([A-Za-z_][\w.]{0,200})(?:(?:\([\w.]{1,120}\))?: ?(.*))?$")
_BOX: Final = ("│", "╭", "╰", "|", "┃", "└", "┌")
_PACKAGE: Final = re.compile(r"(?:site|dist)-packages/([^/\s]+)")
_STANDARD: Final = re.compile(r"(?:/lib(?:64)?/python\d[\d.]*/|^<frozen )")
_ESCAPED: Final = re.compile(r":?\s?\\n")
_EXCEPTION_ENDS: Final = ("Error", "Exception", "Exit", "Interrupt", "Warning", "Iteration",
                          "Timeout", "Expired", "Failure", "Refused", "Group")  # fmt: skip
_NO_EXCEPTION: Final = frozenset({"Killed", "Aborted", "Terminated", "Traceback", "Warning", "Info",
                                  "Error", "Note", "Failures"})  # fmt: skip
_STAMP_RUN: Final = re.compile(r"\d{1,20}(?:[-/:.,T ]\d{1,20}){1,12}")
_SKIPPED_LINES: Final = 200  # of other writers between the prefixed lines of one
_DIGITS: Final = re.compile(r"\d+")


@dataclass(slots=True)
class Raised:
    """One exception of a chain as printed."""

    name: str
    message: str
    frames: list[tuple[str, str]]
    link: str = ""  # how the exception before this one relates: cause, context or wrapped


@dataclass(slots=True)
class Traceback:
    """A chain: its lines in the stream, its exceptions in printed order."""

    lines: list[Line] = field(default_factory=list)
    raised: list[Raised] = field(default_factory=list)
    tail: list[Line] = field(default_factory=list)
    interleaved: bool = False

    def fields(self) -> dict[str, str]:
        """The exception that was raised first, and the last of the chain where it is another."""
        if not self.raised:
            return {}
        first = self.raised[0]
        for following in self.raised[1:]:
            if following.link != "wrapped":
                break
            first = following
        found = {"exception": first.name}
        if first.message:
            found["error"] = first.message
        if first.frames:
            path, function = first.frames[-1]
            found.update(frame_file=path, frame_function=function, frame_package=package_of(path))
        last = self.raised[0] if first is not self.raised[0] else self.raised[-1]
        if last is not first:
            found["final_exception"] = last.name
            if last.message:
                found["final_error"] = last.message
        return found


def package_of(path: str) -> str:
    """The site-packages top-level name of a frame, `python` for the standard library, or `user`."""
    matches = _PACKAGE.findall(path)
    if matches:
        name: str = matches[-1]
        return name.removesuffix(".py").split("-")[0].split(".")[0] or "user"
    return "python" if _STANDARD.search(path) else "user"


def find_header(window: Window, line: Line) -> Line | None:
    """The first line of the chain that `line` stands in, None where it stands in none."""
    identity = window.identity(line)
    header = line if HEADER in line.text else None
    if header is None:
        header = next(
            (
                place
                for place, body in window.backward(line, identity, lines=MAX_LINES)
                if HEADER in body
            ),
            None,
        )
    for _ in range(8):
        if header is None:
            return None
        earlier = _linked_before(window, header, identity)
        if earlier is None:
            return header
        header = earlier
    return header


def _linked_before(window: Window, header: Line, whose: Identity) -> Line | None:
    """The header of the traceback that the one at `header` follows in its chain."""
    linked = False
    for count, (place, body) in enumerate(window.backward(header, whose, lines=MAX_LINES)):
        if not linked:
            if count > 3:
                return None
            linked = _CAUSE in body or _CONTEXT in body
        elif HEADER in body:
            return place
    return None


def read_traceback(window: Window, header: Line) -> Traceback:
    """Read the chain that starts at `header`, on its identity only."""
    _, found, behind = header.text.partition(HEADER)
    if found and _ESCAPED.match(behind):
        return _read_escaped(header, behind)
    return _Reader(window, header).read()


def _read_escaped(header: Line, behind: str) -> Traceback:
    r"""A traceback inside a JSON string on one line: its newlines are the two characters `\n`."""
    found = Traceback(lines=[header])
    frames: list[tuple[str, str]] = []
    for part in behind.replace('\\"', '"').split("\\n")[1:MAX_LINES]:
        if match := _FRAME.match(part):
            frames.append((match[1], match[2] or ""))
        elif part[:1].isalpha() and (match := _EXCEPTION.match(part.rstrip('"}], '))):
            found.raised.append(Raised(match[1], (match[2] or "")[:2000], frames))
            frames = []
            if '"' in part[-4:]:
                break
    return found


class _Reader:
    def __init__(self, window: Window, header: Line) -> None:
        self._window = window
        self._header = header
        self._identity = window.identity(header)
        body = header.text[self._identity.body :]
        before = body[: body.find(HEADER)] if HEADER in body else ""
        self._boxed = any(mark in before for mark in _BOX)
        self._mask = _mask_of(before) if before.strip() and not self._boxed else None
        self._prefixed = self._mask is not None
        self._found = Traceback(lines=[header])
        self._pending: list[Line] = []
        self._frames: list[tuple[str, str]] = []
        self._link = ""
        self._after = -1  # lines since the last exception, -1 while frames are read
        self._open_headers = 1

    def read(self) -> Traceback:
        skipped = 0
        for line, body in self._window.forward(
            self._header, self._identity, lines=MAX_LINES, look_bytes=1 << 18
        ):
            text = self._strip(body)
            if text is None:
                skipped += 1
                if skipped > _SKIPPED_LINES:
                    break
            elif not self._take(line, text):
                break
        for line in self._pending[:_TAIL_LINES]:
            if not line.text[self._window.identity(line).body :].strip():
                break
            self._found.tail.append(line)
        return self._found

    def _strip(self, body: str) -> str | None:
        """The line without the prefix that the header had; None where another writer's begins."""
        if self._mask is None:
            return body
        if match := self._mask.match(body):
            return body[match.end() :]
        if len(self._found.lines) == 1 and (not body.strip() or body[:1].isspace()):
            self._mask = None  # only the header had it: a log record that holds a traceback
            return body
        return body if not body.strip() else None

    def _take(self, line: Line, text: str) -> bool:
        if self._after >= 0:
            return self._take_behind(line, text)
        if HEADER in text:
            self._found.interleaved = True
            self._open_headers += 1
            self._keep(line)
            return True
        if match := _FRAME.match(text):
            self._frames.append((match[1], match[2] or ""))
        elif text.lstrip()[:1] in _BOX and text.strip():
            self._boxed = True
            if match := _BOX_FRAME.match(text):
                self._frames.append((match[1], match[3]))
        elif text.strip() and not text[0].isspace():
            match = _EXCEPTION.match(text)
            if match is None or not _names_exception(match[1], match[2]):
                return False
            self._keep(line)
            self._raise(match[1], (match[2] or "").strip())
            return True
        self._keep(line)
        return True

    def _take_behind(self, line: Line, text: str) -> bool:
        """A line behind an exception: a link of the chain, the rest of its message, or the end."""
        if _CAUSE in text or _CONTEXT in text:
            self._link = "cause" if _CAUSE in text else "context"
            self._pending.append(line)
            return True
        if HEADER in text:
            if not self._link:
                return False
            self._resume(line)
            return True
        if _FRAME.match(text) and self._after == 0:
            self._link = "wrapped"
            self._resume(None)
            return self._take(line, text)
        self._after += bool(text.strip())
        starts_record = self._window.stamps.read(text) is not None
        if self._after > _MESSAGE_LINES or (starts_record and not self._prefixed):
            return False
        self._pending.append(line)
        return True

    def _resume(self, line: Line | None) -> None:
        self._found.lines += self._pending
        if line is not None:
            self._found.lines.append(line)
        self._pending = []
        self._after = -1
        self._open_headers = 1

    def _keep(self, line: Line) -> None:
        self._found.lines.append(line)

    def _raise(self, name: str, message: str) -> None:
        self._found.raised.append(Raised(name, message[:2000], self._frames, self._link))
        self._frames, self._link = [], ""
        self._open_headers -= 1
        if self._open_headers <= 0:
            self._after = 0


def _names_exception(name: str, message: str | None) -> bool:
    """Whether `name: message` ends a traceback, and is not some other writer's line."""
    last = name.rpartition(".")[2]
    if name in _NO_EXCEPTION or name.endswith((".py", ".sh", ".c", ".cpp", ".cc")):
        return False
    if "." in name or last.endswith(_EXCEPTION_ENDS):
        return True
    return last[:1].isupper() and message is not None and not last.isupper()


def _mask_of(prefix: str) -> re.Pattern[str]:
    """A prefix with its stamps left open: they differ from line to line, pids and ranks do not."""
    pieces: list[str] = []
    place = 0
    prefix = prefix[-400:].rstrip(" ")
    for match in _STAMP_RUN.finditer(prefix):
        pieces += [
            re.escape(prefix[place : match.start()]),
            _DIGITS.sub(r"\\d+", re.escape(match[0])),
        ]
        place = match.end()
    return re.compile("".join(pieces) + re.escape(prefix[place:]) + " ?")
