"""From one log line to a rule file and its cases: the fixed text kept, what varies generalised."""

import re
from dataclasses import dataclass
from typing import Final

from engine.rulebook.pattern import MIN_LITERAL_BYTES, automaton_form, required_literal

_MAX_BODY: Final = 160
_TODO: Final = "TODO: the page, source file or report that shows this line"
# What loggers and collectors put before a message; taken off again and again, so the order of
# prefixes does not matter. Sample lines: `Jan  1 00:10:00 node-7 kernel: `, `[rank3]:`, `2: `.
_PREFIXES: Final = (
    re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})? *"),
    re.compile(r"[A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2} (?P<host>[\w.-]{1,64}) (?=\S+: )"),
    re.compile(r"\[ *\d{1,9}\.\d{6}\] *"),
    re.compile(r"\[[A-Z]?\d{0,4} ?[\d:.]{5,24} \S{1,80}:\d{1,6}\] *"),
    re.compile(r"\[(?:default)?\d{0,5}\]:? *|\[rank\d{1,6}\]: *|\[Rank \d{1,6}\] *|\d{1,5}: +"),
    re.compile(r"(?:kernel|systemd|slurmd|slurmctld|slurmstepd|kubelet)(?:\[\d+\])?: *"),
    re.compile(r"(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)(?:[: |-]+)"),
)
_VARYING: Final = re.compile(
    r"(?P<gpu_uuid>GPU-[0-9a-fA-F]{8}-[0-9a-fA-F-]{27})"
    r"|(?P<pci>\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?(?!:?\w))"
    r"|(?P<peer_addr>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b)"
    r"|(?P<gpu_index>\b(?<=GPU )\d{1,3}\b(?![.:]?\w| ?[KMGT]i?B))"
    r"|(?P<rank>(?<=[Rr]ank )\d+|(?<=[Rr]ank=)\d+)"
    r"|(?P<pid>(?<=pid=)\d+|(?<=pid )\d+)"
    r"|(?P<path>(?<![\w/])/[\w.+-]+(?:/[\w.+-]+)+)"
    r"|(?P<hex>\b0x[0-9a-fA-F]+\b)"
    r"|(?P<stamp>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?Z?)"
    r"|(?P<number>(?<!\d)(?<!Errno )(?<!mlx)(?<!fp)(?<!bf)\d+)"
)
_GENERAL: Final = {
    "gpu_uuid": "GPU-[0-9a-fA-F-]{36}",
    "pci": "[0-9a-fA-F:.]{7,16}",
    "peer_addr": r"[\d.:]{7,21}",
    "gpu_index": r"\d{1,3}",
    "rank": r"\d{1,6}",
    "pid": r"\d{1,10}",
    "path": "/[^ ]{1,200}",
    "hex": "0x[0-9a-fA-F]{1,16}",
    "stamp": r"[\dTZ :.-]{19,30}",
    "number": r"\d{1,20}",
}
_UNNAMED: Final = frozenset({"hex", "number", "stamp"})
_SPECIAL: Final = re.compile(r"[.^$*+?{}\[\]\\|()]")
_KERNEL: Final = re.compile(r"kernel: |NVRM: |^\[ *\d+\.\d{6}\]|mlx5_core|EDAC |Lustre")
# A syslog line of any other daemon: `Jan 12 03:14:15 node-004 gpu-guard[812]: parked`.
_DAEMON: Final = re.compile(r"[A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2} [\w.-]{1,64} [^\s:]{1,64}: ")
_LOGGER_TAG: Final = re.compile(r"[\w./-]{1,64}\[\d{1,10}\]: ")
_GPU_NAMES: Final = frozenset({"gpu_uuid", "pci", "gpu_index"})
# A line of these domains may speak of the very node that it was collected from.
_HARDWARE: Final = frozenset({"gpu", "nvlink", "pcie", "host", "network"})


@dataclass(slots=True, frozen=True)
class Proposal:
    """The texts of a rule file and of its cases, and the expression between them."""

    rule_id: str
    rule: str
    cases: str
    scan: str


def propose(line: str, *, rule_id: str, domain: str, source: str | None = None) -> Proposal:
    """Propose a rule for `line`; meaning, source and case stay to be filled in by its author."""
    line = line.strip("\r\n")
    body = message_of(line)
    scan, captures = generalised(body)
    read_from = source or ("syslog" if _KERNEL.search(line) or _DAEMON.match(line) else "applog")
    symptom = rule_id.rsplit("/", 1)[-1]
    short = ""
    if len(required_literal(automaton_form(scan)).encode()) < MIN_LITERAL_BYTES:
        short = "    short_literal: 'TODO: add fixed text to scan, or say why there is none'\n"
    identity = f"    identity: [{', '.join(captures)}]\n" if captures else ""
    rule = (
        f"id: {rule_id}\nkind: symptom\nversion: 1\nsources:\n  - '{_TODO}'\n"
        f"symptom: {symptom}\ntitle: {_quoted(_title(body))}\ndomain: {domain}\n"
        f"role: ambiguous\ntier: 4\nalone: probable\n{_whom(domain, captures)}signatures:\n"
        f"  - name: main\n    sources: [{read_from}]\n    scan: {_quoted(scan)}\n{short}{identity}"
        f"    samples:\n      - {_quoted(line)}\n"
        "    near_misses:\n      - 'TODO: a line much like it that must not match'\n"
    )
    cases = (
        f"cases:\n  - name: {symptom} is seen\n    lines:\n      {read_from}: |\n"
        f"        {line.strip()}\n    expect:\n      symptoms: {{present: [{symptom}]}}\n"
        f"  - name: {symptom} stays silent on another line\n    lines:\n      {read_from}: |\n"
        "        an ordinary line\n    expect:\n"
        f"      symptoms: {{absent: [{symptom}]}}\n"
    )
    return Proposal(rule_id, rule, cases, scan)


def message_of(line: str) -> str:
    """Return the line without stamps, hosts, ranks and levels before its message."""
    body = line.strip()
    while True:
        for prefix in _PREFIXES:
            match = prefix.match(body)
            if match and match.end() and match.end() < len(body):
                body = body[match.end() :]
                break
        else:
            return body


def generalised(body: str) -> tuple[str, list[str]]:
    """Return the expression for `body` and the names that it captures, each once."""
    parts: list[str] = []
    captures: list[str] = []
    end = 0
    body = body if len(body) <= _MAX_BODY else body[:_MAX_BODY].rsplit(" ", 1)[0]
    for match in _VARYING.finditer(body):
        kind = match.lastgroup or "number"
        parts.append(_escaped(body[end : match.start()]))
        general = _GENERAL[kind]
        if kind in _UNNAMED or kind in captures:
            parts.append(general)
        else:
            parts.append(f"(?P<{kind}>{general})")
            captures.append(kind)
        end = match.end()
    parts.append(_escaped(body[end:]))
    return "".join(parts), captures


def _title(body: str) -> str:
    """The message in at most 60 characters of whole words, without its daemon's name."""
    text = _LOGGER_TAG.sub("", body, count=1).strip() or body
    return text if len(text) <= 60 else text[:61].rsplit(" ", 1)[0][:60].strip()


def _whom(domain: str, captures: list[str]) -> str:
    """What it happens to, and that no node is blamed for what is not its hardware."""
    entity = "entity: gpu\n" if domain == "gpu" and _GPU_NAMES & set(captures) else ""
    return entity if domain in _HARDWARE else f"{entity}accuses: false\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
