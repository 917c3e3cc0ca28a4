"""Cases beside rules: small evidence and the part of the verdict that it must give.

`xid.cases.yaml` stands beside `xid.yaml`. A case says only what it cares about; every expected
field is compared by itself, so a failure reads as a list of differences.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, model_validator

from engine.model.contract import StrictDocument
from engine.model.verdict import Verdict
from engine.model.vocabulary import (
    Domain,
    EpisodeRole,
    Manifestation,
    QualityLevel,
    Source,
    TerminalState,
)
from engine.rulebook.document import Listed
from engine.rulebook.load import CASES_SUFFIX, validation_problems
from engine.rulebook.problem import Problem
from engine.rulebook.yamltree import YamlTree, read_yaml_tree

DEFAULT_WORKLOAD: Final[dict[str, Any]] = {
    "scheduler": "slurm",
    "cluster": "case",
    "job_id": "1",
    "state": "FAILED",
    "exit_code": "1:0",
    "nodes": ["node-001"],
}
"""What a case's workload says where the case does not."""


class CaseEvidence(StrictDocument):
    """One file of a case. `path` is made up where absent; formats are detected from content."""

    source: Source
    text: str
    path: str | None = None
    node: Annotated[tuple[str, ...], Listed] = ()
    rank: Annotated[tuple[int, ...], Listed] = ()
    pod: str | None = None
    container: str | None = None
    timezone: str | None = None
    boot_time: str | None = None
    captured_at: str | None = None


class SymptomExpectation(StrictDocument):
    """Symptoms that must be, and must not be, among the verdict's; and roles of some."""

    present: Annotated[tuple[str, ...], Listed] = ()
    absent: Annotated[tuple[str, ...], Listed] = ()
    roles: dict[str, EpisodeRole] = Field(default={})


class Expectation(StrictDocument):
    """A partial verdict. A list where the verdict has one word means: any of these."""

    terminal_state: Annotated[tuple[TerminalState, ...], Listed] = ()
    manifestation: Annotated[tuple[Manifestation, ...], Listed] = ()
    domain: Annotated[tuple[Domain, ...], Listed] = ()
    failure_class: Annotated[tuple[str, ...], Listed] = ()
    quality: Annotated[tuple[QualityLevel, ...], Listed] = ()
    primary: Annotated[tuple[str, ...], Listed] = ()
    root_causes: Annotated[tuple[str, ...] | None, Listed] = None
    culprit_nodes: Annotated[tuple[str, ...] | None, Listed] = None
    suspect_nodes: Annotated[tuple[str, ...] | None, Listed] = None
    culprit_ranks: Annotated[tuple[int, ...] | None, Listed] = None
    actions: Annotated[tuple[str, ...], Listed] = ()
    symptoms: SymptomExpectation = SymptomExpectation()

    @model_validator(mode="after")
    def _expects_something(self) -> "Expectation":
        if not self.model_fields_set:
            raise ValueError("expects nothing; a case that cannot fail proves nothing")
        return self


class CaseDocument(StrictDocument):
    """One case: `lines` is the short form of `evidence` (source to text, on the first node)."""

    name: str = Field(min_length=3)
    workload: dict[str, Any] = Field(default={})
    lines: dict[Source, str] = Field(default={})
    evidence: tuple[CaseEvidence, ...] = ()
    expect: Expectation


class CasesFile(StrictDocument):
    """`*.cases.yaml`."""

    cases: tuple[CaseDocument, ...]

    @model_validator(mode="after")
    def _holds_a_case(self) -> "CasesFile":
        if not self.cases:
            raise ValueError("no case in this file")
        return self


@dataclass(slots=True, frozen=True)
class RuleCase:
    """A case and where it stands; `rule` is the id of the rule that the file stands beside."""

    rule: str
    path: str
    line: int
    document: CaseDocument


def read_cases(folder: Path) -> tuple[list[RuleCase], list[Problem]]:
    """Read every `*.cases.yaml` below `folder`; problems of all files come together."""
    cases: list[RuleCase] = []
    problems: list[Problem] = []
    for path in sorted(folder.rglob(f"*{CASES_SUFFIX}")):
        name = path.relative_to(folder).as_posix()
        found, wrong = read_case_file(name, path.read_bytes())
        cases.extend(found)
        problems.extend(wrong)
        if not path.with_name(path.name.removesuffix(CASES_SUFFIX) + ".yaml").is_file():
            message = "no rule of this name stands beside these cases"
            problems.append(Problem(name, 1, 1, message))
    return cases, sorted(problems)


def read_case_file(name: str, data: bytes) -> tuple[list[RuleCase], list[Problem]]:
    """Read one file of cases."""
    tree = read_yaml_tree(name, data)
    if tree.problems:
        return [], tree.problems
    try:
        document = CasesFile.model_validate(tree.value)
    except ValidationError as error:
        return [], validation_problems(tree, CasesFile, error)
    rule = name.removesuffix(CASES_SUFFIX)
    found = [
        RuleCase(rule, name, tree.place(("cases", index))[0], case)
        for index, case in enumerate(document.cases)
    ]
    return found, _doubled_names(tree, document)


def _doubled_names(tree: YamlTree, document: CasesFile) -> list[Problem]:
    seen: set[str] = set()
    problems: list[Problem] = []
    for index, case in enumerate(document.cases):
        if case.name in seen:
            problems.append(tree.problem(("cases", index, "name"), f"two cases {case.name!r}"))
        seen.add(case.name)
    return problems


def workload_of(case: CaseDocument) -> dict[str, Any]:
    """The case's workload over the default one; empty text takes a default away."""
    merged = {**DEFAULT_WORKLOAD, **case.workload}
    return {key: value for key, value in merged.items() if value not in ("", None)}


def evidence_of(case: CaseDocument) -> list[CaseEvidence]:
    """The case's files, its short form spelled out on the workload's first node."""
    nodes = workload_of(case).get("nodes") or [""]
    first = nodes if isinstance(nodes, str) else nodes[0]
    short = [
        CaseEvidence(
            source=source,
            text=text,
            node=() if source in ("scheduler", "kubernetes") or not first else (first,),
        )
        for source, text in sorted(case.lines.items())
    ]
    return [*short, *case.evidence]


def differences(verdict: Verdict, expect: Expectation) -> list[str]:
    """Compare field by field; an empty list is a pass."""
    primary = [cause.symptom for cause in verdict.root_causes if cause.primary]
    found = [
        *_word("terminal_state", expect.terminal_state, verdict.terminal_state),
        *_word("manifestation", expect.manifestation, verdict.manifestation),
        *_word("domain", expect.domain, verdict.domain),
        *_word("failure_class", expect.failure_class, verdict.failure_class),
        *_word("quality", expect.quality, verdict.quality.level),
        *_word("primary", expect.primary, primary[0] if primary else "(none)"),
        *_same("root_causes", expect.root_causes, (c.symptom for c in verdict.root_causes)),
        *_same("culprit_nodes", expect.culprit_nodes, _nodes(verdict, "culprit")),
        *_same("suspect_nodes", expect.suspect_nodes, _nodes(verdict, "suspect")),
        *_same(
            "culprit_ranks",
            expect.culprit_ranks,
            (rank.rank for rank in verdict.affected_ranks if rank.role == "culprit"),
        ),
    ]
    offered = {action.action for action in verdict.actions}
    found.extend(
        f"actions: expected {action!r} among {_listed(offered)}"
        for action in expect.actions
        if action not in offered
    )
    return [*found, *_symptom_differences(verdict, expect.symptoms)]


def _nodes(verdict: Verdict, role: str) -> list[str]:
    return [node.node for node in verdict.affected_nodes if node.role == role]


def _symptom_differences(verdict: Verdict, expect: SymptomExpectation) -> list[str]:
    roles: dict[str, set[str]] = {}
    for symptom in verdict.symptoms:
        roles.setdefault(symptom.symptom, set()).add(symptom.role)
    found = [
        f"symptoms: expected {name!r} among {_listed(roles)}"
        for name in expect.present
        if name not in roles
    ]
    found.extend(f"symptoms: {name!r} must be absent" for name in expect.absent if name in roles)
    for name, role in sorted(expect.roles.items()):
        if role not in roles.get(name, set()):
            found.append(
                f"symptoms: {name!r} expected as {role!r}, is {_listed(roles.get(name, ()))}"
            )
    return found


def _word(field: str, expected: tuple[str, ...], found: str) -> list[str]:
    if not expected or found in expected:
        return []
    return [f"{field}: expected {' or '.join(map(repr, expected))}, got {found!r}"]


def _same(field: str, expected: Iterable[Any] | None, found: Iterable[Any]) -> list[str]:
    if expected is None:
        return []
    wanted, given = sorted(set(expected)), sorted(set(found))
    if wanted == given:
        return []
    missing = [item for item in wanted if item not in given]
    extra = [item for item in given if item not in wanted]
    said = [f"missing {_listed(missing)}"] if missing else []
    said.extend([f"not expected {_listed(extra)}"] if extra else [])
    return [f"{field}: expected {_listed(wanted)}, got {_listed(given)} ({'; '.join(said)})"]


def _listed(items: Iterable[Any]) -> str:
    return "[" + ", ".join(str(item) for item in sorted(items)) + "]"
