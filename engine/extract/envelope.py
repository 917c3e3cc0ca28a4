"""Log lines that shippers wrap: JSON objects a line, and journald's export format.

An unwrapped line is written as the daemon would have: `<time> <host> <program>[<pid>]: message`,
so that stamps and identity are read from it like from any other line.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

_MESSAGE_KEYS: Final = ("MESSAGE", "log", "message", "msg", "textPayload", "event", "body")
_TIME_KEYS: Final = (
    "time", "@timestamp", "timestamp", "ts", "date", "datetime", "asctime", "Timestamp",
    "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP",
)  # fmt: skip
_HOST_KEYS: Final = ("_HOSTNAME", "host", "hostname", "fromhost")
_TAG_KEYS: Final = ("SYSLOG_IDENTIFIER", "syslogtag", "syslog-tag", "programname", "app-name",
                    "appname", "ident", "_COMM")  # fmt: skip
_EXTRA_KEYS: Final = ("exception", "exc_info", "exc_text", "error", "stack", "stack_trace",
                      "stacktrace", "traceback")  # fmt: skip
_MAX_LINES: Final = 400
_MAX_EPOCH_US: Final = 4_102_444_800_000_000  # the year 2100
_KEY: Final = re.compile(rb"^[A-Z0-9_]{1,64}=")
_LONE_KEY: Final = re.compile(rb"^[A-Z_][A-Z0-9_]{0,63}$")
_LENGTH_BYTES: Final = 8
_MAX_VALUE: Final = 1 << 20
_ISO: Final = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_decode: Final = msgspec.json.Decoder().decode

Origin = tuple[int, int, int]


def read_json_line(line: bytes) -> list[bytes] | None:
    """Return the lines that a JSON log record holds; None where it is no such record."""
    stripped = line.strip()
    if not stripped.startswith(b"{") or not stripped.endswith(b"}"):
        return None
    try:
        record = _decode(stripped)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    if "resourceLogs" in record:
        return [line for item in _otlp_records(record) for line in item] or None
    return _record_lines(record)


def _record_lines(record: dict[str, Any]) -> list[bytes] | None:
    message = next((_text(record[key]) for key in _MESSAGE_KEYS if record.get(key)), None)
    if message is None:
        return [] if "log" in record and "stream" in record else None
    if not any(key in record for key in (*_TIME_KEYS, "stream", "level", "severity")):
        return None
    texts = [message]
    texts += [_text(record[key]) for key in _EXTRA_KEYS if isinstance(record.get(key), str)]
    return _written("\n".join(texts), _time(record), _host(record), _tag(record))


def _written(message: str, time: str, host: str, tag: str) -> list[bytes]:
    head = f"{time} " if time else ""
    if host and tag:
        head += f"{host} {tag}: "
    lines = message.rstrip("\r\n").replace("\r\n", "\n").split("\n")[:_MAX_LINES]
    return [(head + line).encode("utf-8", "replace") for line in lines]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        # journald writes a message that is no UTF-8 as a list of byte values
        return bytes(item & 255 for item in value).decode("utf-8", "replace")
    if isinstance(value, dict) and "stringValue" in value:
        return str(value["stringValue"])
    return msgspec.json.encode(value).decode()


def _time(record: dict[str, Any]) -> str:
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, str) and _ISO.match(value):
            return value
        if isinstance(value, str | int | float) and (text := _epoch(str(value))):
            return text
    return ""


def _epoch(text: str) -> str:
    """RFC 3339 of an epoch number in s, ms, us or ns, told by its size."""
    whole, _, fraction = text.partition(".")
    if not whole.isdigit() or len(whole) < 10 or (fraction and not fraction.isdigit()):
        return ""
    scale = {10: 1_000_000, 13: 1_000, 16: 1}.get(len(whole), 0)
    us = int(whole) * scale if scale else int(whole) // 1000
    if scale == 1_000_000:
        us += int((fraction + "000000")[:6])
    if not 0 < us < _MAX_EPOCH_US:
        return ""
    moment = datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{us % 1_000_000:06d}Z"


def _host(record: dict[str, Any]) -> str:
    value = next((record[key] for key in _HOST_KEYS if isinstance(record.get(key), str)), "")
    return value if value and " " not in value else ""


def _tag(record: dict[str, Any]) -> str:
    if record.get("_TRANSPORT") == "kernel":
        return "kernel"
    tag = next((record[key] for key in _TAG_KEYS if isinstance(record.get(key), str)), "")
    tag = tag.rstrip(": ").replace(" ", "_")
    pid = record.get("_PID") or record.get("SYSLOG_PID")
    return f"{tag}[{pid}]" if tag and "[" not in tag and str(pid or "").isdigit() else tag


def _otlp_records(record: dict[str, Any]) -> Iterator[list[bytes]]:
    for resource in _dicts(record.get("resourceLogs")):
        whose = resource.get("resource")
        known = _attributes(whose) if isinstance(whose, dict) else {}
        host = known.get("host.name", "")
        tag = known.get("service.name", "").replace(" ", "_")
        for scope in _dicts(resource.get("scopeLogs")):
            for item in _dicts(scope.get("logRecords")):
                stamp = item.get("timeUnixNano") or item.get("observedTimeUnixNano") or ""
                body = item.get("body")
                texts = [_text(body)] if body else []
                stack = _attributes(item).get("exception.stacktrace")
                texts += [stack] if stack else []
                if texts:
                    shown = host if " " not in host else ""
                    yield _written("\n".join(texts), _epoch(str(stamp)), shown, tag)


def _attributes(holder: dict[str, Any]) -> dict[str, str]:
    """Return OTLP's list of keys and values as a mapping of texts."""
    return {
        str(each.get("key")): _text(each["value"])
        for each in _dicts(holder.get("attributes"))
        if isinstance(each.get("value"), dict)
    }


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class JournalExport:
    """journald's `-o export`: KEY=value lines, an entry ends at an empty line.

    A value with line feeds stands as its key alone, then eight bytes of length (little-endian)
    and the value itself (systemd, "Journal Export Formats"): tracebacks come so.
    """

    def __init__(self) -> None:
        self._entry: dict[str, Any] = {}
        self._origin: Origin = (0, 0, 0)
        self._key = b""
        self._held = bytearray()

    @staticmethod
    def fits(lines: list[bytes]) -> bool:
        """Whether the head of a stream looks like an export."""
        return any(line.startswith(b"__REALTIME_TIMESTAMP=") for line in lines) and (
            sum(1 for line in lines if _KEY.match(line)) * 5 >= len(lines) * 3
        )

    def feed(self, line: bytes, origin: Origin) -> Iterator[tuple[bytes, Origin]]:
        """Take one line; yield the entry that it completes."""
        if self._key:
            self._hold(line)
            return
        if not line.strip():
            yield from self.finish()
            return
        if _LONE_KEY.match(line):
            self._key = line
            if line == b"MESSAGE":
                self._origin = origin
            return
        if not _KEY.match(line):
            return
        key, _, value = line.partition(b"=")
        if not self._entry or key == b"MESSAGE":
            self._origin = origin
        self._set(key, value)

    def _hold(self, line: bytes) -> None:
        """Take a line of a value with a length; what its length does not fit is left alone."""
        self._held += line + b"\n"
        if len(self._held) < _LENGTH_BYTES:
            return
        length = int.from_bytes(self._held[:_LENGTH_BYTES], "little")
        if length > _MAX_VALUE:
            self._key = b""
            self._held.clear()
        elif len(self._held) > _LENGTH_BYTES + length:
            self._set(self._key, bytes(self._held[_LENGTH_BYTES : _LENGTH_BYTES + length]))
            self._key = b""
            self._held.clear()

    def _set(self, key: bytes, value: bytes) -> None:
        if len(self._entry) < 200:
            self._entry[key.decode()] = value.decode("utf-8", "replace")

    def finish(self) -> Iterator[tuple[bytes, Origin]]:
        """Yield what is left of the current entry."""
        entry, self._entry = self._entry, {}
        for text in _record_lines(entry) or ():
            yield text, self._origin
