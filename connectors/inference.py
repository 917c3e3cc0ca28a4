"""What a bare folder's files are, read from the first bytes of each: sources, nodes, ranks.

Names decide nothing about the format. The one exception is a flight-recorder dump's rank, which
PyTorch writes nowhere but into the file's name.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from backports import zstd

from connectors.protocol import ConnectorError
from connectors.static import Blob, BlobSource
from engine.model.vocabulary import Source
from engine.model.workload import EvidenceSource, Workload

HEAD_BYTES = 64 * 1024
_LINES = 200
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
"""Bytes that no text holds in number; more than one in fifty makes a file binary."""
_MAX_HOSTS = 64

_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]{0,252})"
# Feb 14 05:03:41 node-002 kernel: ...   2026-02-14T05:03:41.123456+01:00 node-002 kernel: ...
_SYSLOG = re.compile(
    rf"^(?:<\d{{1,3}}>)?(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?"
    rf"|\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?) "
    rf"{_HOST} [A-Za-z0-9_./()@-]{{1,64}}(?:\[\d{{1,10}}\])?:"
)
# [12345.678901] mlx5_core ...   [Thu Mar  6 22:01:02 2023] NVRM: ...
_DMESG = re.compile(
    r"^(?:<\d{1,3}>)?\[(?: {0,8}\d{1,10}\.\d{3,9}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d "
    r"\d\d:\d\d:\d\d \d{4})\]"
)
# [2018-05-17T01:05:46.311] error: [job 23] prolog failed status=1:0
_DAEMON = re.compile(r"^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\] ")
_DAEMON_WORD = re.compile(
    r"slurm|JobId=|StepId=|\bjob \d|launch task|\[\d+\.(?:batch|extern|\d+)\]|prolog|epilog|Gres"
)
# I0607 09:14:02.000000    1234 kubelet.go:1234] ...
_KLOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]{1,64}\.go:\d+\]")
_METRIC = re.compile(
    r"^(?:# (?:HELP|TYPE|UNIT) |[A-Za-z_:][\w:]{0,200}(?:\{[^\n]{0,4000}\})? [-+0-9.eEInNaf]{1,40}"
    r"(?: \d{9,19}(?:\.\d{1,9})?)?\s*$)"
)
_TEXT_FORMS: tuple[tuple[Source, re.Pattern[str]], ...] = (
    ("scheduler", re.compile(r"^\s*JobID(?:Raw)?[ |].{0,400}\b(?:State|ExitCode)\b", re.M)),
    ("scheduler", re.compile(r"^(?:[A-Z][A-Za-z]{1,30}[ |]){1,40}.{0,200}\bJobID\b", re.M)),
    ("scheduler", re.compile(r"^JobId=\d+ |^NodeName=\S+ ", re.M)),
    ("scheduler", re.compile(r"^\s*REASON +USER +TIMESTAMP +NODELIST|^\s*JOBID +PARTITION ", re.M)),
    ("scheduler", re.compile(r"^\s*PARTITION +AVAIL +TIMELIMIT |^\s*NODELIST +NODES ", re.M)),
    ("kubernetes", re.compile(r"^apiVersion: |^(?:NAMESPACE +)?NAME +READY +STATUS ", re.M)),
    ("kubernetes", re.compile(r"^(?:NAMESPACE +)?LAST SEEN +TYPE +REASON +OBJECT", re.M)),
    ("kubernetes", re.compile(r"^Name: {2,}\S+\n(?:Namespace|Labels|Priority|Roles): ", re.M)),
    ("inventory", re.compile(r"NVIDIA-SMI \d|^=+NVSMI LOG=+|^GPU \d+: .{1,80}\(UUID: ", re.M)),
    ("inventory", re.compile(r"^CA '[\w.-]+'\s*$|^Filesystem +\S+ .{0,60}Mounted on", re.M)),
    ("inventory", re.compile(r"^\s+LnkSta:\t|^\|? ?Overall Health|^ +total +used +free", re.M)),
)
# A job script often prints nvidia-smi first and then runs the program.
_PROGRAM = re.compile(r"Traceback \(most recent|\btorch\b|\bNCCL (?:INFO|WARN)|\bpython3? ")
_JSON_KEYS: tuple[tuple[Source, frozenset[str]], ...] = (
    ("flight_recorder", frozenset({"pg_config", "pg_status", "nccl_version"})),
    ("metrics", frozenset({"resultType"})),
    ("kubernetes", frozenset({"apiVersion", "involvedObject", "containerStatuses"})),
    ("scheduler", frozenset({
        "job_id", "jobid", "JOBID", "SLURM_JOB_ID", "jobId", "jobName", "TrainingJobName",
        "job_state", "sinfo", "hostnames",
    })),
)  # fmt: skip
_KEY = re.compile(r'"([A-Za-z_@][\w@]{0,60})" ?:')
_DUMP_RANK = re.compile(r"(?:^|[^0-9])(\d{1,6})(?:\.(?:pkl|pickle|json|bin))?(?:\.gz|\.zst)?$")
_METRIC_HOST = re.compile(r'\b(?:Hostname|hostname|node|nodename)"?[=:] ?"([^"\\]{1,253})"')
_NCCL_HOST = re.compile(rf"(?:^|\s){_HOST}:\d{{1,8}}:\d{{1,8}} \[\d{{1,3}}\] NCCL ")
_ELASTIC_HOST = re.compile(r"^\s+host +: +(\S{1,253})\s*$", re.M)


@dataclass(slots=True)
class Inferred:
    """A bare folder as a bundle: the workload that can be told, its files, what is unknown."""

    workload: Workload
    evidence: tuple[EvidenceSource, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    source: Source | None
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    hosts: Counter[str] = field(default_factory=Counter)


def infer_bundle(
    source: BlobSource, blobs: Sequence[Blob], *, name: str, workload: Workload | None
) -> Inferred:
    """Read the head of each blob and say what it is; unreadable and binary files are noted."""
    evidence: list[EvidenceSource] = []
    notes: list[str] = []
    nodes: set[str] = set()
    for blob in sorted(blobs, key=lambda each: each.path):
        try:
            seen = inspect_head(_head(source, blob.path), path=blob.path)
        except (ConnectorError, OSError) as error:
            notes.append(f"{blob.path}: cannot be read ({error})")
            continue
        if seen.source is None:
            notes.append(f"{blob.path}: empty or binary, not read")
            continue
        nodes.update(seen.nodes)
        evidence.append(
            EvidenceSource(path=blob.path, source=seen.source, node=seen.nodes, rank=seen.ranks)
        )
    if workload is None:
        workload = Workload(scheduler="none", job_id=name, nodes=tuple(sorted(nodes)))
        notes.append(
            "no workload.yaml: scheduler, state, exit code, start, end and world size are unknown; "
            "sources, nodes and ranks were read from the files"
        )
    return Inferred(workload, tuple(evidence), tuple(notes))


def inspect_head(head: bytes, *, path: str) -> _Seen:
    """Return source, nodes and ranks of a file from its first bytes (decompressed)."""
    if not head.strip():
        return _Seen(None)
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        is_dump = b"pg_config" in head or b"entries" in head
        return _Seen("flight_recorder" if is_dump else None, ranks=_dump_rank(path))
    if len(head.translate(None, _CONTROL)) < len(head) * 49 // 50:
        return _Seen(None)
    text = head.decode("utf-8", "replace")
    kind = _json_source(text) or _text_source(text)
    if kind == "flight_recorder":
        return _Seen(kind, ranks=_dump_rank(path))
    if kind == "syslog":
        return _Seen(kind, nodes=_syslog_nodes(text))
    if kind == "applog":
        return _Seen(kind, nodes=_applog_nodes(text))
    if kind == "metrics":
        return _Seen(kind, nodes=tuple(sorted(set(_METRIC_HOST.findall(text)))[:_MAX_HOSTS]))
    return _Seen(kind)


def _head(source: BlobSource, path: str) -> bytes:
    reader = source.open_blob(path)
    try:
        raw = reader.read(HEAD_BYTES)
    finally:
        reader.close()
    if raw[:2] == b"\x1f\x8b":
        try:
            return zlib.decompressobj(wbits=31).decompress(raw, HEAD_BYTES)
        except zlib.error:
            return b""
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        return _zstd_head(raw)
    return raw


def _zstd_head(raw: bytes) -> bytes:
    try:
        return bytes(zstd.ZstdDecompressor().decompress(raw, HEAD_BYTES))
    except (zstd.ZstdError, EOFError):
        return b""


def _json_source(text: str) -> Source | None:
    if text.lstrip("\ufeff \t\r\n")[:1] not in ("{", "["):
        return None
    keys = set(_KEY.findall(text))
    if _is_json_log(text):
        return None
    for source, wanted in _JSON_KEYS:
        if keys & wanted:
            return source
    return None


def _is_json_log(text: str) -> bool:
    """Whether lines are JSON log records (`{"log": ..., "ts": ...}`): an application's output."""
    first = text.lstrip("\ufeff \t\r\n").split("\n", 1)[0]
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(record, dict)
        and bool({"msg", "message", "log", "level"} & set(record))
        and (not {"involvedObject", "apiVersion", "JOBID", "jobid"} & set(record))
    )


def _text_source(text: str) -> Source:
    lines = [line for line in text.splitlines()[:_LINES] if line.strip()]
    for source, form in _TEXT_FORMS:
        if form.search(text[:4000]) and not (source == "inventory" and _PROGRAM.search(text)):
            return source
    if not lines:
        return "applog"
    if _share(lines, _METRIC) >= 0.9 and any("{" in line or line[0] == "#" for line in lines):
        return "metrics"
    kernel = sum(1 for line in lines if _SYSLOG.match(line) or _DMESG.match(line))
    daemon = [line for line in lines if _DAEMON.match(line) or _KLOG.match(line)]
    speaks = sum(1 for line in daemon if _DAEMON_WORD.search(line) or _KLOG.match(line))
    stamped = kernel + (len(daemon) if speaks * 4 >= len(daemon) else 0)
    # Continuation lines carry no stamp; a job's own log has hardly any of these forms.
    return "syslog" if stamped * 10 >= len(lines) * 7 else "applog"


def _share(lines: Sequence[str], form: re.Pattern[str]) -> float:
    return sum(1 for line in lines if form.match(line)) / len(lines)


def _syslog_nodes(text: str) -> tuple[str, ...]:
    hosts: set[str] = set()
    for line in text.splitlines():
        match = _SYSLOG.match(line)
        if match and len(hosts) < _MAX_HOSTS:
            hosts.add(match["host"])
    return tuple(sorted(hosts))


def _applog_nodes(text: str) -> tuple[str, ...]:
    hosts = {match["host"] for match in _NCCL_HOST.finditer(text)}
    hosts.update(_ELASTIC_HOST.findall(text))
    hosts.discard("localhost")
    return tuple(sorted(hosts)) if len(hosts) == 1 else ()


def _dump_rank(path: str) -> tuple[int, ...]:
    match = _DUMP_RANK.search(path.rsplit("/", 1)[-1])
    return (int(match[1]),) if match else ()
