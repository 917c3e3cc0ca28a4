"""Scores a folder of bundles with `expected.yaml` against what rootrank says of each.

    python scripts/score.py tests/corpus [--rules rules] [--json] [--only 036] [--bare]

The words of `expected.yaml`: `domain`, `quality`, `terminal_state` with `also_accept_*`; empty
`culprit_*` lists mean that none may be named; `must_not_blame` lists domains and nodes. Suspects
count as named. `right`: the domain is right, nobody is falsely accused, an open case stays open.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from engine.extract.scanner import build_scanner
from engine.model.verdict import Verdict
from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book

NAMED = ("culprit", "suspect")
OPEN_QUALITY = ("ambiguous", "insufficient")


@dataclass
class Score:
    """How one bundle came out."""

    name: str
    domain_ok: bool = False
    quality_ok: bool = False
    terminal_ok: bool = False
    falsely_accused: list[str] = field(default_factory=list)
    missed_nodes: list[str] = field(default_factory=list)
    open_kept: bool = True
    right: bool = False
    got: str = ""
    want: str = ""
    error: str = ""


def accepted(expected: dict[str, Any], key: str, also: str) -> list[str]:
    """Return the accepted values of a field."""
    return [str(expected.get(key)), *(str(each) for each in expected.get(also) or ())]


def false_accusations(expected: dict[str, Any], verdict: Verdict) -> list[str]:
    """Return every named node, rank or GPU that the labels do not allow, and wrong domains."""
    wrong = []
    nodes = set(expected.get("culprit_nodes") or ())
    for group in expected.get("also_accept_nodes") or ():
        nodes.update(group if isinstance(group, list) else [group])
    forbidden = set((expected.get("must_not_blame") or {}).get("nodes") or ())
    named = {each.node for each in verdict.affected_nodes if each.role in NAMED}
    wrong += [f"node {name}" for name in sorted(named) if name not in nodes or name in forbidden]
    ranks = set(expected.get("culprit_ranks") or ())
    for group in expected.get("also_accept_ranks") or ():
        ranks.update(group if isinstance(group, list) else [group])
    named_ranks = {each.rank for each in verdict.affected_ranks if each.role in NAMED}
    wrong += [f"rank {rank}" for rank in sorted(named_ranks - ranks)]
    gpus = expected.get("culprit_gpus") or ()
    for node in verdict.affected_nodes:
        for gpu in node.gpus:
            if gpu.role in NAMED and not any(_same_gpu(node.node, gpu, each) for each in gpus):
                wrong.append(f"gpu {node.node}/{gpu.index}/{gpu.pci}")
    domains = set((expected.get("must_not_blame") or {}).get("domains") or ())
    causes = {cause.domain for cause in verdict.root_causes} | {verdict.domain}
    allowed = set(accepted(expected, "domain", "also_accept_domains"))
    wrong += [f"domain {each}" for each in sorted((causes & domains) - allowed)]
    return wrong


def _same_gpu(node: str, gpu: Any, expected: dict[str, Any]) -> bool:
    if expected.get("node") not in (None, node):
        return False
    index, pci = expected.get("index"), str(expected.get("pci") or "").lower()
    if gpu.index is not None and index is not None:
        return bool(gpu.index == int(index))
    if gpu.pci and pci:
        return _bus(gpu.pci) == _bus(pci)
    return True


def _bus(pci: str) -> str:
    parts = pci.lower().split(".")[0].split(":")
    return ":".join(
        part.lstrip("0") or "0" for part in (parts if len(parts) > 1 else ["0", *parts])
    )


def score_bundle(folder: Path, verdict: Verdict) -> Score:
    """Compare one verdict with its labels."""
    expected = yaml.safe_load((folder / "expected.yaml").read_text(encoding="utf-8"))
    score = Score(folder.name)
    score.domain_ok = verdict.domain in accepted(expected, "domain", "also_accept_domains")
    score.quality_ok = verdict.quality.level in accepted(expected, "quality", "also_accept_quality")
    score.terminal_ok = verdict.terminal_state in accepted(
        expected, "terminal_state", "also_accept_outcomes"
    )
    is_open = expected.get("quality") in OPEN_QUALITY
    level = verdict.quality.level
    may_close = set(accepted(expected, "quality", "also_accept_quality")) - set(OPEN_QUALITY)
    score.open_kept = not is_open or level in OPEN_QUALITY or level in may_close
    if is_open and expected.get("quality") == "ambiguous":
        # Rivals of several domains set `unknown`; one of them being the label is the answer.
        rivals = {cause.domain for cause in verdict.root_causes}
        labels = set(accepted(expected, "domain", "also_accept_domains"))
        score.domain_ok |= verdict.domain == "unknown" and bool(rivals & labels)
    score.falsely_accused = false_accusations(expected, verdict)
    named = {each.node for each in verdict.affected_nodes if each.role in NAMED}
    may_be_open = [] in (expected.get("also_accept_nodes") or ())
    missed = set() if may_be_open else set(expected.get("culprit_nodes") or ()) - named
    score.missed_nodes = sorted(missed)
    score.right = score.domain_ok and not score.falsely_accused and score.open_kept
    score.got = f"{verdict.terminal_state}/{verdict.domain}/{level}/{verdict.failure_class}"
    score.want = (
        f"{expected.get('terminal_state')}/{expected.get('domain')}/{expected.get('quality')}"
    )
    return score


def bare_copy(folder: Path, target: Path) -> Path:
    """Copy the evidence without workload.yaml, to score a bare folder."""
    place = target / folder.name
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.yaml"))
    return place


def run(root: Path, *, rules: Path | None, only: str, is_bare: bool) -> list[Score]:
    """Score every bundle below `root`."""
    book = load_book(rules)
    scanner = build_scanner(book)
    scores = []
    with tempfile.TemporaryDirectory() as temporary:
        for expected in sorted(root.glob("*/expected.yaml")):
            folder = expected.parent
            if only and only not in folder.name:
                continue
            try:
                path = bare_copy(folder, Path(temporary)) if is_bare else folder
                verdict = attribute_path(path, book=book, scanner=scanner)
                scores.append(score_bundle(folder, verdict))
            except Exception as error:  # noqa: BLE001 (a tool that must score the rest)
                scores.append(Score(folder.name, error=f"{type(error).__name__}: {error}"))
    return scores


def print_table(scores: list[Score]) -> None:
    """Print one line a bundle and the totals."""
    for each in scores:
        marks = "".join(
            "+" if ok else "-"
            for ok in (each.domain_ok, each.quality_ok, each.terminal_ok, not each.falsely_accused)
        )
        word = "RIGHT" if each.right else "error" if each.error else "wrong"
        print(f"{word:5} dqta={marks} {each.name:32} got {each.got}  want {each.want}")
        if each.falsely_accused:
            print(f"        falsely accused: {', '.join(each.falsely_accused)}")
        if each.missed_nodes:
            print(f"        missed: {', '.join(each.missed_nodes)}")
        if each.error:
            print(f"        {each.error}")
    totals = summary(scores)
    print(", ".join(f"{key} {value}" for key, value in totals.items()))


def summary(scores: list[Score]) -> dict[str, int]:
    """Return the totals."""
    return {
        "bundles": len(scores),
        "right": sum(each.right for each in scores),
        "domain": sum(each.domain_ok for each in scores),
        "quality": sum(each.quality_ok for each in scores),
        "terminal": sum(each.terminal_ok for each in scores),
        "falsely_accusing": sum(bool(each.falsely_accused) for each in scores),
        "missing_nodes": sum(bool(each.missed_nodes) for each in scores),
        "errors": sum(bool(each.error) for each in scores),
    }


def main() -> int:
    """Run from the command line; always 0, because a score is no finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--rules", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--bare", action="store_true", help="score without workload.yaml")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scores = run(options.root, rules=options.rules, only=options.only, is_bare=options.bare)
    if options.json:
        print(json.dumps({"totals": summary(scores), "bundles": [asdict(s) for s in scores]}))
    else:
        print_table(scores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
