"""A small rulebook and shorthands for the extraction tests."""

import io
from collections.abc import Callable
from typing import Any

from engine.extract.redact import Redactor
from engine.extract.scanner import EngineName, build_scanner
from engine.extract.session import ExtractContext, Extraction, extract_stream
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from engine.rulebook.book import FamilyCase, Rulebook, SignatureDef, SymptomDef
from engine.rulebook.pattern import automaton_form

TEXT_SOURCES = ("applog", "syslog")


def signature(index: int, rule: str, pattern: str, symptom: str, **more: Any) -> SignatureDef:
    return SignatureDef(
        **{
            "index": index, "rule": rule, "name": "main", "symptom": symptom,
            "sources": TEXT_SOURCES, "proves_from": (), "scan": automaton_form(pattern),
            "extract": pattern, "ignore_case": False, "identity": (), "when": {}, "unless": (),
            "block": None, "set": {}, "onset": None, **more,
        }
    )  # fmt: skip


def meaning(symptom: str, role: str = "root") -> SymptomDef:
    return SymptomDef(
        symptom, "x/y", "stable", symptom, "gpu", role, 1, "crash", "job", "direct", "definitive",
        (), None, True, (), "", "", (),
    )  # fmt: skip


SIGNATURES = (
    signature(
        0, "python/any", r"Traceback \(most recent call last\)", "python_exception",
        block="python_traceback", identity=("exception",),
    ),
    signature(1, "gpu/ecc", "uncorrectable ECC error encountered", "ecc_error",
              block="python_traceback"),
    signature(
        2, "nccl/watchdog",
        r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d+), "
        r"OpType=(?P<op>\w+)",
        "collective_timeout", identity=("seq",),
    ),
    signature(3, "elastic/report", r"Root Cause(?: \(first observed failure\))?:", "rank_failed",
              block="elastic_report", identity=("exit_code",)),
    signature(4, "host/oom", "invoked oom-killer", "host_oom", block="oom_report"),
    signature(
        5, "gpu/xid", r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+)", "xid_other",
        identity=("code", "pci"), family_key="code", proves_from=("node", "platform"),
        family=(FamilyCase(("79",), {}, None, None, "gpu_lost"),
                FamilyCase(("13",), {}, None, "Graphics Exception", "xid_13_other")),
    ),
    signature(6, "storage/full", "No space left on device", "disk_full",
              block="python_traceback"),
    signature(7, "elastic/closing", r"closing signal SIG(?P<signal>\w+)", "closing_signal",
              block="python_traceback"),
    signature(8, "app/refused", "(?:connection|socket) refused by (?P<peer_addr>\\S+)",
              "connection_refused", ignore_case=True),
    signature(9, "host/oops", "kernel BUG at ", "kernel_bug", block="kernel_oops"),
    signature(10, "app/notice", "custom failure notice", "notice", block="multiline"),
    signature(11, "slurm/job", r"^slurm\.job .*state=(?P<state>NODE_FAIL)", "node_failed",
              sources=("scheduler",)),
    signature(12, "ops/settings", "JSONDecodeError: ", "settings_broken",
              block="python_traceback", block_has=(", in read_settings",)),
    signature(13, "data/sample", "JSONDecodeError: ", "sample_broken",
              block="python_traceback", block_lacks=(", in read_settings",)),
    signature(14, "app/value", "RefusedError: ", "value_refused", block="python_traceback",
              gives_way=True),
    signature(15, "ops/host", "host unknown", "host_unknown", block="python_traceback"),
)  # fmt: skip

BOOK = Rulebook(
    "1", "sha256:e", "sha256:r", SIGNATURES,
    {item.symptom: meaning(item.symptom, "teardown" if "closing" in item.symptom else "root")
     for item in SIGNATURES},
    (), (),
)  # fmt: skip
SCANNERS = {name: build_scanner(BOOK, name) for name in ("hyperscan", "re2")}
WORKLOAD = Workload(
    scheduler="none", job_id="1", start="2025-06-26T05:50:00Z", end="2025-06-26T06:24:55Z",
    nodes=("node-1",),
)  # fmt: skip


def context(
    workload: Workload = WORKLOAD, *, engine: EngineName = "hyperscan", max_bytes: int | None = None
) -> ExtractContext:
    return ExtractContext(
        BOOK, SCANNERS[engine], workload, "static", "sha256:e", Redactor(), max_bytes
    )


def label(source: str = "applog", **more: Any) -> StreamLabel:
    trust = "node" if source == "syslog" else "workload"
    return StreamLabel(**{"uri": "job.log", "source": source, "trust": trust,
                          "nodes": ("node-1",), **more})  # fmt: skip


def reader(data: bytes, sizes: list[int] | None = None) -> Callable[[int], bytes]:
    """A source that gives at most the next of `sizes` bytes a read."""
    stream = io.BytesIO(data)
    left = list(sizes or [])

    def read(size: int) -> bytes:
        return stream.read(min(size, left.pop(0)) if left else size)

    return read


def extract(
    data: bytes | str,
    stream: StreamLabel | None = None,
    *,
    workload: Workload = WORKLOAD,
    engine: EngineName = "hyperscan",
    sizes: list[int] | None = None,
    max_bytes: int | None = None,
) -> Extraction:
    raw = data.encode() if isinstance(data, str) else data
    return extract_stream(
        reader(raw, sizes), stream or label(), context(workload, engine=engine, max_bytes=max_bytes)
    )
