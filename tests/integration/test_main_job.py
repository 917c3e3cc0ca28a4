"""What the main job promises, over the whole of collection and reasoning."""

import random
import re
import shutil
from pathlib import Path

import pytest
import yaml

from engine.extract.scanner import Scanner, build_scanner
from engine.model.canonical import canonical_json
from engine.model.verdict import Verdict
from engine.rulebook.book import Rulebook
from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book

CORPUS = Path(__file__).parents[1] / "corpus"
NAMES = sorted(path.name for path in CORPUS.iterdir() if (path / "workload.yaml").exists())
XID_13 = "[{at}.{n:06d}] NVRM: Xid (PCI:0000:{bus:02x}:00): 13, pid={pid}, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address\n"  # noqa: E501
XID_79 = "[500.000001] NVRM: Xid (PCI:0000:30:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"  # noqa: E501


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return load_book(None)


@pytest.fixture(scope="module")
def scanner(book: Rulebook) -> Scanner:
    return build_scanner(book)


def bundle(folder: Path, logs: dict[str, tuple[str, str]], **workload: object) -> Path:
    """Write a one-node bundle; `logs` maps file name to (source, text)."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {
        "scheduler": "slurm",
        "job_id": "1",
        "state": "FAILED",
        "exit_code": "1:0",
        "start": "2025-01-01T00:00:00Z",
        "end": "2025-01-01T00:20:00Z",
        "nodes": ["node-001"],
        **workload,
    }
    evidence = []
    for name, (source, text) in logs.items():
        (folder / name).write_text(text, encoding="utf-8")
        entry = {"path": name, "source": source, "node": "node-001"}
        if source == "syslog":
            entry["boot_time"] = "2025-01-01T00:00:00Z"
        evidence.append(entry)
    text = yaml.safe_dump({"workload": described, "evidence": evidence})
    (folder / "workload.yaml").write_text(text, encoding="utf-8")
    return folder


def culprits(verdict: Verdict) -> list[tuple[str, str]]:
    return [(e.kind, e.id) for e in verdict.affected_entities if e.role in ("culprit", "suspect")]


def test_one_lost_gpu_is_found_in_a_million_lines_of_another_fault(
    tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    half = [
        XID_13.format(at=400 + n // 10_000, n=n % 1_000_000, bus=0x10 * (1 + n % 2), pid=n % 50)
        for n in range(500_000)
    ]
    storm = "".join([*half, XID_79, *half])
    path = bundle(tmp_path / "storm", {"dmesg": ("syslog", storm)})
    verdict = attribute_path(path, book=book, scanner=scanner)
    assert verdict.failure_class == "gpu_fallen_off_bus"
    assert "node-001" in {node.node for node in verdict.affected_nodes if node.role == "culprit"}
    counted = sum(s.count for s in verdict.symptoms if "13" in s.symptom or "engine" in s.symptom)
    assert counted in (0, 1_000_000) or counted > 900_000


def test_a_kernel_line_that_the_job_prints_accuses_nobody(
    tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    forged = (
        "step 1 loss 2.0\n" + XID_79 + "node-077 kernel: mce: [Hardware Error]: Machine check\n"
    )
    path = bundle(tmp_path / "forged", {"train.log": ("applog", forged)})
    verdict = attribute_path(path, book=book, scanner=scanner)
    assert verdict.domain == "unknown"
    assert culprits(verdict) == []
    assert not any(action.evidence_supports_automation for action in verdict.actions)
    real = bundle(tmp_path / "real", {"dmesg": ("syslog", XID_79)})
    assert attribute_path(real, book=book, scanner=scanner).failure_class == "gpu_fallen_off_bus"


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_evidence_entries_changes_no_byte(
    name: str, tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    expected = attribute_path(CORPUS / name, book=book, scanner=scanner)
    copy = tmp_path / name
    shutil.copytree(CORPUS / name, copy)
    document = yaml.load((copy / "workload.yaml").read_text(), Loader=yaml.BaseLoader)
    random.Random(7).shuffle(document["evidence"])
    document["evidence"].reverse()
    (copy / "workload.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    again = attribute_path(copy, book=book, scanner=scanner)
    assert canonical_json(again.model_dump(mode="json")) == canonical_json(
        expected.model_dump(mode="json")
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_cites_bytes_that_are_there(
    name: str, book: Rulebook, scanner: Scanner
) -> None:
    verdict = attribute_path(CORPUS / name, book=book, scanner=scanner)
    cited = {evidence.evidence_id for evidence in verdict.evidence}
    for cause in verdict.root_causes:
        assert cause.evidence
        assert set(cause.evidence) <= cited
    for entity in verdict.affected_entities:
        if entity.role in ("culprit", "suspect"):
            assert entity.evidence
    for evidence in verdict.evidence:
        if not (CORPUS / name / evidence.uri).exists():
            assert evidence.uri.startswith("workload")
            continue
        data = (CORPUS / name / evidence.uri).read_bytes()
        first = data[evidence.byte_offset :].split(b"\n", 1)[0].decode("utf-8", "replace")
        assert data[: evidence.byte_offset].count(b"\n") == evidence.line - 1
        assert evidence.byte_offset + evidence.byte_length <= len(data)
        words = re.findall(r"[A-Za-z]{6,}", evidence.text.split("\n", 1)[0])[:3]
        assert all(word in first or "REDACTED" in evidence.text.upper() for word in words)


def test_no_verdict_names_a_node_for_a_cause_that_is_not_a_machine(
    book: Rulebook, scanner: Scanner
) -> None:
    for name in NAMES:
        verdict = attribute_path(CORPUS / name, book=book, scanner=scanner)
        if verdict.domain in ("application", "data", "framework", "operator", "scheduler", "none"):
            accused = [n.node for n in verdict.affected_nodes if n.role in ("culprit", "suspect")]
            assert accused == [], name
