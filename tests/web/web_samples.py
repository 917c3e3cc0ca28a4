"""Verdicts to look at: full, hostile and huge, written to a table as the pipeline writes them."""

from dataclasses import dataclass
from typing import Any

from engine.model.canonical import canonical_json
from engine.model.envelope import Envelope
from engine.model.identity import attempt_key
from engine.model.verdict import Verdict, seal
from engine.model.workload import Workload
from functions.adapters.keys import envelope_key, verdict_key
from functions.adapters.object_store import ObjectStore
from functions.adapters.results import Results
from functions.adapters.results_query import ResultsQuery
from functions.adapters.results_table import ResultsTable, RevisionItems
from functions.attribute.revision import index_keys, part_items, table_item

JSON = "application/json"
FAR = 4_000_000_000
HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>"
    "\"'><svg onload=window.hacked=3>{{7*7}}{% raw %}\x1b[2J\x00\u202egnirts\u2066\u200b"
    "javascript:window.hacked=4 ]]> --> </pre></title></style>" + "Z\u0301\u0302\u0303\u0304" * 3
)


def job(job_id: str = "410050", **more: Any) -> dict[str, Any]:
    """A workload of 64 ranks on eight nodes."""
    return {
        "scheduler": "slurm", "cluster": "research", "tenant": "team-a", "job_id": job_id,
        "attempt": 0, "name": "llm-sft", "user": "mira", "state": "FAILED", "exit_code": "1:0",
        "start": "2026-01-30T02:00:00Z", "end": "2026-01-31T12:00:00Z",
        "nodes": [f"node-{number:03d}" for number in range(1, 9)], "world_size": 64, **more,
    }  # fmt: skip


def entity(kind: str, name: str, node: str | None = None, **more: Any) -> dict[str, Any]:
    """A thing that a verdict speaks of."""
    return {"kind": kind, "id": name, "node": node, **more}


GPU = entity(
    "gpu", "GPU-aaaa-1", "node-003", index=2, pci="0000:30:00", uuid="GPU-aaaa-1", serial="1650222"
)


def quote(number: int, text: str, **more: Any) -> dict[str, Any]:
    """A piece of evidence."""
    return {
        "evidence_id": f"ev-{number:012x}", "source": "syslog", "connector": "static",
        "uri": "node-003/dmesg.log", "line": number, "byte_offset": 100 * number,
        "byte_length": len(text), "node": "node-003", "observed_at": "2026-01-31T11:29:00Z",
        "time_basis": "stamp", "trust": "node", "text": text, **more,
    }  # fmt: skip


def symptom(
    number: int, name: str, role: str, *, of: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """An episode."""
    return {
        "episode_id": f"ep-{number}", "symptom": name, "role": role, "count": 1, "entity": of,
        "first_seen": "2026-01-31T11:29:00Z", "last_seen": "2026-01-31T11:29:00Z", **more,
    }  # fmt: skip


def full(job_id: str = "410050", **more: Any) -> Verdict:
    """A verdict with something of everything."""
    ranks = [
        symptom(
            10 + rank, "collective_timeout", "downstream", caused_by=["ep-1"],
            of=entity("rank", str(rank), f"node-{rank // 8 + 1:03d}"), evidence=["ev-000000000003"],
            first_seen="2026-01-31T11:59:00Z", last_seen="2026-01-31T11:59:30Z",
        )
        for rank in range(64)
    ]  # fmt: skip
    fields: dict[str, Any] = {
        "workload": job(job_id),
        "terminal_state": "failed", "manifestation": "hang", "domain": "gpu",
        "failure_class": "gpu_fallen_off_bus",
        "root_causes": [{
            "cause_id": "rc-1", "primary": True, "symptom": "gpu_fallen_off_bus",
            "rule": "gpu/xid_79", "domain": "gpu", "title": "A GPU has fallen off the bus",
            "explanation": "The driver no longer reaches GPU 2 over PCIe.", "entity": GPU,
            "onset": {"earliest": "2026-01-31T11:28:59Z", "latest": "2026-01-31T11:29:00Z"},
            "quality": "definitive", "evidence": ["ev-000000000001"], "explains": ["ep-10"],
        }],
        "affected_entities": [
            {**GPU, "role": "culprit", "cause_id": "rc-1", "evidence": ["ev-000000000001"]},
        ],
        "affected_nodes": [
            {"node": "node-003", "instance_id": "i-0abc", "role": "culprit",
             "reasons": ["its GPU 2"], "gpus": [{"index": 2, "role": "culprit"}], "ranks": [18]},
            *({"node": f"node-{n:03d}", "role": "victim"} for n in (1, 2, 4, 5, 6, 7, 8)),
        ],
        "affected_ranks": [{"rank": 18, "node": "node-003", "role": "culprit"}],
        "victims_omitted": 3,
        "quality": {
            "level": "definitive", "reasons": ["direct_report", "corroborated"],
            "would_change": [{
                "source": "inventory", "entities": ["node-003"],
                "window": {"start": "2026-01-31T11:00:00Z", "end": None},
                "why": "nvidia-smi would show whether the GPU is back",
            }],
        },
        "summary": "Job 410050 failed. A GPU of node-003 fell off the bus.",
        "progress": {"last_step": 81_000, "last_step_at": "2026-01-31T11:28:30Z",
                     "last_checkpoint": "step-80000", "gpu_hours_since_checkpoint": "42.5"},
        "symptoms": [
            symptom(1, "gpu_fallen_off_bus", "root", of=GPU, count=3, evidence=["ev-000000000001"]),
            symptom(2, "aer_errors", "contributing", of=entity("node", "node-003", "node-003"),
                    count=40, first_seen="2026-01-30T20:00:00Z", evidence=["ev-000000000002"]),
            *ranks,
            symptom(90, "workers_stopped", "teardown", of=entity("node", "node-001", "node-001"),
                    first_seen="2026-01-31T11:59:50Z", last_seen="2026-01-31T11:59:50Z"),
            symptom(91, "sched_failed", "downstream", of=entity("job", "410050"),
                    caused_by=["ep-10"]),
            symptom(92, "noise_advice", "noise", of=entity("node", "node-001", "node-001"),
                    reason="survived"),
        ],
        "timeline": [
            {"at": "2026-01-30T02:00:00Z", "kind": "start", "text": "the job started"},
            {"at": "2026-01-31T11:28:30Z", "kind": "progress", "text": "last step seen: 81000"},
            {"at": "2026-01-31T11:28:30Z", "until": "2026-01-31T12:00:00Z", "kind": "gap",
             "text": "no step was seen for 31 minutes"},
            {"at": "2026-01-31T11:29:00Z", "kind": "root", "text": "A GPU has fallen off the bus",
             "node": "node-003", "evidence": ["ev-000000000001"]},
            {"at": "2026-01-31T12:00:00Z", "kind": "end", "text": "the job ended: FAILED"},
        ],
        "evidence": [
            quote(1, "NVRM: Xid (PCI:0000:30:00): 79, GPU has fallen off the bus."),
            quote(2, "pcieport 0000:2f:00.0: AER: Corrected error received"),
            quote(3, "Watchdog caught collective operation timeout", source="applog",
                  connector="loki", uri="rank-0.log", trust="workload", rank=0),
        ],
        "coverage": [
            {"source": source, "window": window, "state": state, "nodes": nodes, "lines": lines,
             "bytes": 100 * lines, "reason": reason,
             "first": "2026-01-31T11:00:00Z" if lines else None,
             "last": "2026-01-31T12:00:00Z" if lines else None}
            for source, window, state, nodes, lines, reason in (
                ("applog", "tail", "complete", "node-[001-008]", 120_000, None),
                ("applog", "startup", "sampled", "node-[001-008]", 500, None),
                ("syslog", "tail", "complete", "node-[001-007]", 900, None),
                ("syslog", "tail", "lost", "node-008", 0, "the node did not come back"),
                ("metrics", "whole", "failed", None, 0, "the server answered 503"),
                ("scheduler", "whole", "empty", None, 0, None),
                ("kubernetes", "whole", "not_configured", None, 0, "nobody asked"),
                ("inventory", "tail", "unverified", None, 0, None),
            )
        ],
        "connector_reports": [
            {"connector": "static", "status": "ok", "observations": 12, "bytes": 1_000_000},
            {"connector": "prometheus", "status": "error", "reason": "503 from the server"},
        ],
        "rules": {
            "version": "1.0.0", "extraction_digest": "sha256:aa", "reasoning_digest": "sha256:bb",
            "not_evaluated": [{"rule": "*", "reason": "no kubernetes source was given"},
                              {"rule": "python/slow", "reason": "KeyError: 'rank'"}],
        },
        "actions": [
            {"action": "drain_node", "target": "node-003", "reason": "Its GPU is gone.",
             "evidence_supports_automation": True},
            {"action": "retry_excluding_nodes", "target": "node-003", "reason": "Others do."},
        ],
        "history": {"incident_id": "inc-7", "verdicts": [{
            "attribution_id": "sha256:cc", "relation": "earlier_attempt", "job_id": "410049",
            "domain": "gpu", "failure_class": "gpu_fallen_off_bus", "shared": ["node-003"],
        }]},
    }  # fmt: skip
    return seal({**fields, **more})


def rivals(job_id: str = "410051") -> Verdict:
    """Two causes fit; none is chosen."""
    one = full(job_id).model_dump(mode="json")
    cause = {**one["root_causes"][0], "primary": False, "quality": "ambiguous"}
    other = {**cause, "cause_id": "rc-2", "domain": "network", "title": "A link went down",
             "entity": entity("link", "mlx5_0", "node-005")}  # fmt: skip
    one |= {
        "root_causes": [cause, other], "domain": "unknown", "failure_class": "ambiguous_causes",
        "quality": {"level": "ambiguous", "reasons": ["several_causes_fit"]}, "actions": [],
        "affected_entities": [],
        "affected_nodes": [{"node": node, "role": "suspect"} for node in ("node-003", "node-005")],
    }  # fmt: skip
    return seal(one)


def bare(job_id: str = "410052") -> Verdict:
    """As little as a verdict can say."""
    return seal({
        "workload": {"scheduler": "none", "cluster": "default", "tenant": "default",
                     "job_id": job_id},
        "terminal_state": "unknown", "manifestation": "unknown", "domain": "unknown",
        "failure_class": "unexplained_failure", "quality": {"level": "insufficient"},
        "summary": "Nothing is known.",
        "rules": {"version": "1.0.0", "extraction_digest": "", "reasoning_digest": ""},
    })  # fmt: skip


def hostile(job_id: str = "666") -> Verdict:
    """Every free text of a verdict is an attack, among them a line of a megabyte."""

    def spoil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: spoil(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [spoil(each, key) for each in value]
        return HOSTILE if isinstance(value, str) and key in FREE else value

    fields = spoil(full(job_id).model_dump(mode="json"))
    fields["workload"] |= {"job_id": job_id, "tenant": "te<b>am", "cluster": 're/se"arch'}
    fields["evidence"][1]["text"] = "A" * 1_000_000
    fields["evidence"][2]["text"] = "\n".join(HOSTILE for _ in range(300))
    fields["summary"] = HOSTILE + "\u202e" * 500
    return seal(fields)


FREE = frozenset({
    "summary", "text", "title", "explanation", "reason", "why", "name", "user", "node", "uri",
    "nodes", "entities", "reasons", "target", "last_checkpoint", "rule", "serial",
    "uuid", "instance_id", "symptom", "failure_class", "connector", "shared", "incident_id",
    "time_basis", "exit_code", "relation",
})  # fmt: skip
"""Fields whose words come from elsewhere."""


def huge(job_id: str = "10000") -> Verdict:
    """Ten thousand nodes, and every list as long as the engine makes it, or longer."""
    nodes = [f"node-{number:05d}" for number in range(10_000)]
    fields = full(job_id).model_dump(mode="json")
    fields["workload"] |= {"nodes": nodes, "world_size": 80_000}
    fields["affected_nodes"] += [{"node": node, "role": "victim"} for node in nodes[:2_000]]
    fields["affected_ranks"] = [
        {"rank": rank, "node": nodes[rank // 8], "role": "victim"} for rank in range(4_000)
    ]
    fields["victims_omitted"] = 7_968
    fields["symptoms"] += [
        symptom(
            1_000 + number, f"kind_{number % 40}", "downstream", caused_by=["ep-1"],
            of=entity("rank", str(number), node),
            first_seen=f"2026-01-31T11:{30 + number % 29:02d}:00Z",
            last_seen=f"2026-01-31T11:{30 + number % 29:02d}:40Z",
        )
        for number, node in enumerate(nodes)
    ]  # fmt: skip
    fields["evidence"] += [quote(number, "x" * 400) for number in range(10, 1_500)]
    fields["timeline"] += [
        {"at": f"2026-01-31T11:{30 + n % 29:02d}:00Z", "kind": "downstream", "text": f"kind {n}"}
        for n in range(55)
    ]
    return seal(fields)


@dataclass
class Shelf:
    """A table and a bucket to put verdicts on."""

    dynamodb: Any
    s3: Any
    table: str
    bucket: str

    def results(self, tenant: str | None = None) -> Results:
        """A client for what is on the shelf."""
        query = ResultsQuery(self.dynamodb, self.table)
        return Results(query, ObjectStore(self.s3, self.bucket), tenant)

    def put(self, verdict: Verdict, *, revision: int = 1, status: str = "final") -> str:
        """Store one revision as the attribute function does; returns the attempt's key."""
        named = {"scheduler", "cluster", "tenant", "job_id", "attempt", "start"}
        told = verdict.workload.model_dump(exclude_none=True, include=named)
        key = attempt_key(Workload.model_validate(told))
        digest = f"sha256:{revision:064x}"
        where, document = (
            envelope_key(key, revision, digest),
            verdict_key(key, verdict.attribution_id),
        )
        envelope = Envelope.model_validate({
            "attempt_key": key, "revision": revision, "status": status,
            "supersedes": revision - 1 or None, "published_at": "2026-01-31T12:05:00Z",
            "manifest_digest": digest, "verdict": verdict,
        })  # fmt: skip
        store, table = ObjectStore(self.s3, self.bucket), ResultsTable(self.dynamodb, self.table)
        store.put_once(document, canonical_json(verdict.model_dump(mode="json")), content_type=JSON)
        store.put_once(where, canonical_json(envelope.model_dump(mode="json")), content_type=JSON)
        keys = index_keys(envelope)
        cluster, day = keys["day_key"].rsplit("#", 1)
        table.note_day(cluster, day, FAR)
        item = table_item(envelope, verdict_key=document, envelope_key=where) | keys
        item |= {"generation": 1, "collection": 1, "expires_at": FAR}
        table.move_current(RevisionItems(key, revision, item, part_items(envelope)))
        return key
