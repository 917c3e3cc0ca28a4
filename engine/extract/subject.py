"""Whom a line speaks of: the entity from label, line prefix and captured fields."""

import re
from typing import Final

from engine.extract.demux import Identity
from engine.model.observation import Entity
from engine.model.stream import StreamLabel
from engine.rulebook.book import SignatureDef

_NUMBER: Final = re.compile(r"^\d{1,10}$")
ENTITY_FIELDS: Final = frozenset(
    ("rank", "local_rank", "pid", "pod", "pci", "gpu_index", "gpu_uuid", "serial", "nic", "link",
     "switch", "filesystem")
)  # fmt: skip
"""The captures that `entity_of` reads."""


def entity_of(label: StreamLabel, identity: Identity, fields: dict[str, str]) -> Entity:
    """The entity: the label's node; ranks and pids of the line; devices that a rule captured."""
    if not fields:
        rank = label.ranks[0] if identity.rank is None and len(label.ranks) == 1 else identity.rank
        return Entity(
            node_of(label, identity.host), rank, identity.local_rank, identity.pid,
            identity.pod or label.pod,
        )  # fmt: skip
    rank = _number(fields, "rank")
    if rank is None:
        rank = identity.rank
    if rank is None and len(label.ranks) == 1:
        rank = label.ranks[0]
    local_rank = _number(fields, "local_rank")
    pid = _number(fields, "pid")
    return Entity(
        node=node_of(label, identity.host),
        rank=rank,
        local_rank=identity.local_rank if local_rank is None else local_rank,
        pid=identity.pid if pid is None else pid,
        pod=fields.get("pod") or identity.pod or label.pod,
        gpu_index=_number(fields, "gpu_index"),
        gpu_pci=fields.get("pci", ""),
        gpu_uuid=fields.get("gpu_uuid", ""),
        gpu_serial=fields.get("serial", ""),
        nic=fields.get("nic", ""),
        link=fields.get("link", ""),
        switch=fields.get("switch", ""),
        filesystem=fields.get("filesystem", ""),
    )


def enriched(entity: Entity, fields: dict[str, str]) -> Entity:
    """A fact's own entity with what a signature captured from its line added."""
    rank, local_rank = _number(fields, "rank"), _number(fields, "local_rank")
    pid, gpu_index = _number(fields, "pid"), _number(fields, "gpu_index")
    return Entity(
        node=entity.node,
        rank=entity.rank if rank is None else rank,
        local_rank=entity.local_rank if local_rank is None else local_rank,
        pid=entity.pid if pid is None else pid,
        pod=fields.get("pod") or entity.pod,
        gpu_index=entity.gpu_index if gpu_index is None else gpu_index,
        gpu_pci=fields.get("pci") or entity.gpu_pci,
        gpu_uuid=fields.get("gpu_uuid") or entity.gpu_uuid,
        gpu_serial=fields.get("serial") or entity.gpu_serial,
        nic=fields.get("nic") or entity.nic,
        link=fields.get("link") or entity.link,
        switch=fields.get("switch") or entity.switch,
        filesystem=fields.get("filesystem") or entity.filesystem,
    )


POINTERS: Final = frozenset(("host", "cuda_device"))
"""What `pointers_of` may give."""


def pointers_of(identity: Identity, node: str) -> dict[str, str]:
    """What a line's prefix points at: a host that is not the node, a device of the process."""
    found: dict[str, str] = {}
    host = identity.host
    if host and host != node and host.partition(".")[0] != node.partition(".")[0]:
        found["host"] = host
    if identity.cuda_device is not None:
        found["cuda_device"] = str(identity.cuda_device)
    return found


def stream_of(label: StreamLabel, identity: Identity) -> str:
    """The stream that a line belongs to: of a merged log, its rank's own."""
    rank = identity.rank
    if rank is None or label.ranks == (rank,):
        return label.uri
    return f"{label.uri}#rank={rank}"


def flags_of(signature: SignatureDef, label: StreamLabel) -> tuple[str, ...]:
    """`unproven` where this stream's trust is not one that the signature proves from."""
    proves = signature.proves_from
    return ("unproven",) if proves and label.trust not in proves else ()


def node_of(label: StreamLabel, host: str) -> str:
    """The label's node; with several, the one that the line's host names, else none."""
    if len(label.nodes) == 1:
        return label.nodes[0]
    if host and host in label.nodes:
        return host
    short = host.split(".", maxsplit=1)[0] if label.nodes else ""
    if not short:
        return ""
    found = [node for node in label.nodes if node.split(".")[0] == short]
    return found[0] if len(found) == 1 else ""


def _number(fields: dict[str, str], name: str) -> int | None:
    value = fields.get(name, "")
    return int(value) if _NUMBER.match(value) else None
