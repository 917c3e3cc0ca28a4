"""From a run to a bundle: redacted logs, workload.yaml, truth.yaml and expected.yaml."""

import re
import sys
import sysconfig
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from tests.lab.registry import Kind
from tests.lab.run import VENV, Run


class Plain(yaml.SafeDumper):
    """Writes a list that occurs twice twice: a bundle may not hold anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """No value is an alias."""
        return True


MAX_LINES = 420
KEPT_HEAD = 160


def write_bundle(run: Run, kind: Kind, folder: Path) -> None:
    """Write the capture of a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    evidence = [*_job_logs(run, folder), *_kernel_log(run, folder), *_extra(run, folder)]
    workload: dict[str, Any] = {
        "scheduler": run.scheduler, "job_id": run.job_id, "state": run.state,
        "exit_code": run.exit_code or "n/a", "start": run.start_at, "end": run.end_at,
        "nodes": run.names, "world_size": run.world,
    }  # fmt: skip
    if run.time_limit:
        workload["time_limit"] = run.time_limit
    _dump(folder / "workload.yaml", {"workload": workload, "evidence": evidence})
    truth = {**asdict(run.truth), "nodes_of_job": run.names, "world_size": run.world}
    _dump(folder / "truth.yaml", truth)
    _dump(folder / "expected.yaml", expected_of(truth, kind))


def expected_of(truth: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """Derive the labels from what was injected, by the table of kinds alone."""
    label = kind.label
    expected: dict[str, Any] = {"terminal_state": label.terminal, "domain": label.domain}
    terminals = [*label.also_terminal, *(["cancelled"] if truth["ended_by_lab"] else [])]
    if terminals:
        expected["also_accept_outcomes"] = terminals
    if label.also:
        expected["also_accept_domains"] = list(label.also)
    expected["root_cause"] = truth["cause"]
    expected["quality"] = label.quality
    if label.also_quality:
        expected["also_accept_quality"] = list(label.also_quality)
    nodes = truth["nodes"] if label.names_nodes or label.may_name_nodes else []
    expected["culprit_nodes"] = nodes
    if nodes and label.may_name_nodes:
        expected["also_accept_nodes"] = [[]]
    expected["culprit_ranks"] = truth["ranks"] if label.names_ranks else []
    expected["culprit_gpus"] = []
    accepted = {label.domain, *label.also}
    others = [each for each in truth["nodes_of_job"] if each not in nodes]
    expected["must_not_blame"] = {
        "domains": [each for each in label.innocent if each not in accepted], "nodes": others,
    }  # fmt: skip
    expected["why"] = label.why or kind.about
    return expected


def _dump(path: Path, document: dict[str, Any]) -> None:
    text = yaml.dump(document, Dumper=Plain, sort_keys=False, allow_unicode=True, width=100)
    path.write_text(text, encoding="utf-8")


def redact(text: str, run: Run) -> str:
    """Replace this machine's paths and links to package registries; nothing else is touched."""
    library = sysconfig.get_path("stdlib")
    base = Path(sys.base_prefix)
    for old, new in (
        (str(run.work), "/workspace/run"), (str(VENV), "/opt/venv"),
        (library, "/usr/lib/python3.11"), (str(base), "/usr"),
    ):  # fmt: skip
        text = text.replace(old, new)
    text = re.sub(r"https://[\w.]+/project/", "https://packages.example/project/", text)
    return re.sub(r"/tmp/torchelastic_\w+", "/tmp/torchelastic_0", text)


def trim(lines: list[str]) -> list[str]:
    """Shorten the middle of a long log."""
    if len(lines) <= MAX_LINES:
        return lines
    return lines[:KEPT_HEAD] + lines[-(MAX_LINES - KEPT_HEAD) :]


def _copy(source: Path, target: Path, run: Run) -> bool:
    text = redact(source.read_text(encoding="utf-8", errors="replace"), run)
    lines = trim(text.splitlines())
    if not any(line.strip() for line in lines):
        return False
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return True


def _job_logs(run: Run, folder: Path) -> list[dict[str, Any]]:
    evidence: list[dict[str, Any]] = []
    for node, name in enumerate(run.names):
        ranks = list(range(node * run.per_node, (node + 1) * run.per_node))
        split = sorted((run.work / "logs" / name).glob("**/std*.log"))
        is_split = bool(split) and run.index % 3 == 2
        if _copy_if_there(run.work / f"{name}.log", folder / f"{name}.log", run):
            entry: dict[str, Any] = {"path": f"{name}.log", "source": "applog", "node": name}
            if not is_split:
                entry["rank"] = ranks if len(ranks) > 1 else ranks[0]
            evidence.append(entry)
        for path in split if is_split else ():
            local = int(path.parent.name)
            target = (
                f"{name}-attempt{path.parent.parent.name[-1]}-rank{ranks[local]}-{path.stem}.log"
            )
            if _copy(path, folder / target, run):
                evidence.append(
                    {"path": target, "source": "applog", "node": name, "rank": ranks[local]}
                )
    return evidence


def _copy_if_there(source: Path, target: Path, run: Run) -> bool:
    return source.exists() and _copy(source, target, run)


def _kernel_log(run: Run, folder: Path) -> list[dict[str, Any]]:
    lines = run.kernel_log()
    if not lines:
        return []
    name = run.names[run.node_of(run.truth.ranks[0])] if run.truth.ranks else run.names[0]
    (folder / f"{name}.dmesg").write_text("\n".join(trim(lines)) + "\n", encoding="utf-8")
    return [{"path": f"{name}.dmesg", "source": "syslog", "node": name, "timezone": "UTC"}]


def _extra(run: Run, folder: Path) -> list[dict[str, Any]]:
    evidence = []
    for entry in run.extra_evidence:
        text = redact(entry.pop("text"), run)
        (folder / entry["path"]).write_text(text, encoding="utf-8")
        evidence.append(entry)
    return evidence
