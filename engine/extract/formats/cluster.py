"""Kubernetes facts before it is known whose they are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import Entity, When


@dataclass(slots=True)
class Pending:
    """A fact that waits until all names are known, so that ownership can be told."""

    family: str
    values: dict[str, Any]
    lines: Sequence[Line]
    when: When
    excerpt: str | None
    subject: str
    kind: str
    node: str = ""
    pod: str = ""
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Cluster:
    """All Kubernetes facts of one source, before ownership is decided."""

    sheet: Sheet
    pending: list[Pending] = field(default_factory=list)

    def finish(self) -> None:
        """Add the facts; what belongs to other pods and nodes is marked as other.

        A pod belongs to the job if its name or a job label holds the job's id or name. Where no
        object of its kind does, the source is taken to be about this job only.
        """
        wanted = self._wanted()
        kinds = {each.kind for each in self.pending if _is_named(each, wanted)}
        for each in self.pending:
            is_other = self._is_other(each, wanted, named_kinds=kinds)
            self.sheet.add(
                each.family,
                each.values,
                lines=each.lines,
                when=each.when,
                entity=self._entity(each),
                excerpt=each.excerpt,
                other=is_other,
            )

    def _wanted(self) -> tuple[str, ...]:
        workload = self.sheet.workload
        names = {workload.job_id, workload.name or ""}
        return tuple(sorted(name.lower() for name in names if len(name) > 2))

    def _is_other(self, each: Pending, wanted: tuple[str, ...], *, named_kinds: set[str]) -> bool:
        if each.kind == "node":
            return self.sheet.is_other_node(each.subject)
        return each.kind in named_kinds and not _is_named(each, wanted)

    def _entity(self, each: Pending) -> Entity:
        sheet = self.sheet
        if each.family != "k8s.event" and each.kind == "pod" and not sheet.workload.nodes:
            # Where the job's nodes are unknown, its own pods say them.
            return Entity(node=each.node, pod=each.pod)
        return Entity(node=sheet.node_entity(each.node).node, pod=each.pod)


def _is_named(each: Pending, wanted: tuple[str, ...]) -> bool:
    names = [name.lower() for name in (each.subject, *each.names)]
    return any(want in name for want in wanted for name in names)
