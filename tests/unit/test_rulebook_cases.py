"""Cases beside rules: read strictly, written as bundles, compared field by field."""

from pathlib import Path
from typing import Any

import yaml

from engine.model.verdict import Verdict, seal
from engine.rulebook.cases import Expectation, differences, read_case_file, read_cases
from rootrank.rule_cases import run_cases

CASES = """\
cases:
  - name: the GPU is named
    workload:
      nodes: [node-007]
      exit_code: ''
    lines:
      syslog: |
        Jan  1 00:10:00 node-007 kernel: NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.
    evidence:
      - {source: applog, rank: 3, text: "hello\\n"}
    expect:
      domain: gpu
      culprit_nodes: node-007
"""


def _verdict(**changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "workload": {"scheduler": "slurm", "cluster": "c", "tenant": "t", "job_id": "1"},
        "terminal_state": "failed",
        "manifestation": "crash",
        "domain": "gpu",
        "failure_class": "gpu_lost",
        "root_causes": [
            {
                "cause_id": "cause-1", "primary": True, "symptom": "gpu_lost", "rule": "gpu/x",
                "domain": "gpu", "title": "t", "explanation": "e", "quality": "definitive",
                "entity": {"kind": "gpu", "id": "g"}, "evidence": ["e1"],
            }
        ],
        "affected_nodes": [{"node": "node-007", "role": "culprit"}],
        "quality": {"level": "definitive"},
        "summary": "A GPU was lost.",
        "symptoms": [
            {
                "episode_id": "ep-1", "symptom": "gpu_lost", "role": "root", "count": 1,
                "entity": {"kind": "gpu", "id": "g"},
            }
        ],
        "rules": {"version": "1", "extraction_digest": "a", "reasoning_digest": "b"},
        "actions": [{"action": "drain_node", "reason": "r"}],
    }  # fmt: skip
    return seal({**fields, **changes})


def _expect(text: str) -> Expectation:
    return Expectation.model_validate(yaml.load(text, Loader=yaml.BaseLoader))


def test_a_case_says_only_what_it_cares_about() -> None:
    assert differences(_verdict(), _expect("domain: gpu")) == []
    assert differences(_verdict(), _expect("culprit_nodes: node-007")) == []


def test_a_list_of_words_means_any_of_them() -> None:
    assert differences(_verdict(), _expect("quality: [probable, definitive]")) == []


def test_an_empty_list_of_culprits_means_none() -> None:
    assert differences(_verdict(), _expect("culprit_nodes: []")) == [
        "culprit_nodes: expected [], got [node-007] (not expected [node-007])"
    ]


def test_every_differing_field_is_told() -> None:
    text = """
        domain: host
        quality: probable
        primary: host_oom
        root_causes: [host_oom, gpu_lost]
        actions: retry
        symptoms: {present: [host_oom], absent: gpu_lost, roles: {gpu_lost: noise}}
    """
    assert differences(_verdict(), _expect(text)) == [
        "domain: expected 'host', got 'gpu'",
        "quality: expected 'probable', got 'definitive'",
        "primary: expected 'host_oom', got 'gpu_lost'",
        "root_causes: expected [gpu_lost, host_oom], got [gpu_lost] (missing [host_oom])",
        "actions: expected 'retry' among [drain_node]",
        "symptoms: expected 'host_oom' among [gpu_lost]",
        "symptoms: 'gpu_lost' must be absent",
        "symptoms: 'gpu_lost' expected as 'noise', is [root]",
    ]


def test_a_case_becomes_a_bundle_with_its_defaults(tmp_path: Path) -> None:
    cases, problems = read_case_file("gpu/x.cases.yaml", CASES.encode())
    assert problems == []
    seen: dict[str, Any] = {}

    def attribute(folder: Path) -> Verdict:
        seen["bundle"] = yaml.safe_load((folder / "workload.yaml").read_text())
        seen["files"] = {
            path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".log"
        }
        return _verdict()

    [result] = run_cases(cases, attribute_bundle=attribute)
    assert result.passed, result
    assert seen["bundle"]["workload"] == {
        "scheduler": "slurm",
        "cluster": "case",
        "job_id": "1",
        "state": "FAILED",
        "nodes": ["node-007"],
    }
    assert seen["bundle"]["evidence"] == [
        {"source": "syslog", "node": ["node-007"], "path": "01-syslog.log"},
        {"source": "applog", "rank": [3], "path": "02-applog.log"},
    ]
    assert seen["files"]["02-applog.log"] == "hello\n"


def test_a_bundle_that_cannot_be_read_fails_its_case_with_the_reason() -> None:
    cases, _ = read_case_file("gpu/x.cases.yaml", CASES.encode())

    def attribute(folder: Path) -> Verdict:
        raise ValueError("no such zone")

    [result] = run_cases(cases, attribute_bundle=attribute)
    assert (result.passed, result.error) == (False, "ValueError: no such zone")


def test_a_path_out_of_the_bundle_is_refused() -> None:
    text = CASES.replace("rank: 3,", "path: ../outside.log,")
    cases, _ = read_case_file("gpu/x.cases.yaml", text.encode())
    [result] = run_cases(cases, attribute_bundle=lambda folder: _verdict())
    assert result.error is not None
    assert "leaves the bundle" in result.error


def test_mistakes_in_cases_are_located() -> None:
    text = CASES.replace("domain: gpu", "domane: gpu")
    _, [problem] = read_case_file("gpu/x.cases.yaml", text.encode())
    assert str(problem).startswith(
        "gpu/x.cases.yaml:12:7: unknown key 'domane'; did you mean 'domain'?"
    )


def test_a_case_that_expects_nothing_is_an_error() -> None:
    text = CASES[: CASES.index("    expect:")] + "    expect: {}\n"
    _, [problem] = read_case_file("gpu/x.cases.yaml", text.encode())
    assert "a case that cannot fail proves nothing" in str(problem)


def test_cases_without_their_rule_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.cases.yaml").write_text(CASES)
    _, [problem] = read_cases(tmp_path)
    assert "no rule of this name stands beside" in str(problem)


def test_two_cases_of_one_name_are_an_error() -> None:
    text = CASES + CASES.removeprefix("cases:\n")
    _, [problem] = read_case_file("gpu/x.cases.yaml", text.encode())
    assert "two cases 'the GPU is named'" in str(problem)
