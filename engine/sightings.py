"""Sightings of two names of one thing at once, gathered before anything is resolved."""

from dataclasses import dataclass, field, replace

from engine.model.observation import Entity, Observation
from engine.model.workload import Workload
from engine.names import NodeNames, normal_pci


@dataclass(slots=True)
class Links:
    """Sightings of two names at once, gathered before anything is resolved."""

    rank_node: dict[int, dict[str, int]] = field(default_factory=dict)
    pid_rank: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    local_rank: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    local_pid: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    pod_node: dict[str, set[str]] = field(default_factory=dict)
    rank_gpu: dict[int, set[tuple[str, str, str]]] = field(default_factory=dict)
    local_gpu: dict[tuple[str, int], set[tuple[str, str, str]]] = field(default_factory=dict)
    gpu_pid: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    gpu_names: dict[str, list[tuple[int | None, str, str, str]]] = field(default_factory=dict)


def gather_links(workload: Workload, observations: list[Observation], names: NodeNames) -> Links:
    """Return every sighting of two names at once; addresses become aliases of `names`."""
    links = Links()
    for placement in workload.ranks:
        node = names.canonical(placement.node)
        links.rank_node.setdefault(placement.rank, {})[node] = 1_000_000
        if placement.gpu is not None:
            links.rank_gpu.setdefault(placement.rank, set()).add((node, "#", str(placement.gpu)))
    seen: set[tuple[Entity, str, str, str, bool]] = set()
    addresses: dict[str, set[str]] = {}
    for observation in observations:
        fields = observation.fields
        proven = "unproven" not in observation.flags
        key = (observation.entity, "", "", "", proven)
        if fields:
            key = (
                observation.entity, fields.get("host", ""), fields.get("bus", ""),
                fields.get("limit", "") if "gpu_index" in fields else "", proven,
            )  # fmt: skip
            if "peer_addr" in fields and observation.symptom.startswith("mark_"):
                owner = names.canonical(fields.get("host", ""))
                if owner in names.nodes:
                    addresses.setdefault(fields["peer_addr"], set()).add(owner)
        if key in seen:
            continue
        seen.add(key)
        entity, host, bus, size, _ = key
        if bus and not entity.gpu_pci:
            entity = replace(entity, gpu_pci=normal_pci(bus))
        if size and not _is_world(size, workload.world_size):
            # A rank within a sub-communicator is no global rank; its process and device are.
            entity = replace(entity, rank=None)
        if not proven:
            # A kernel's line that the job printed may name any device: it ties none to a rank.
            entity = replace(entity, gpu_index=None, gpu_pci="", gpu_uuid="", gpu_serial="")
        _note(links, entity, host, names)
    names.learn(addresses)
    return links


def _is_world(size: str, world_size: int | None) -> bool:
    return not world_size or not size.isdigit() or int(size) == world_size


def _note(links: Links, entity: Entity, host: str, names: NodeNames) -> None:
    node = names.canonical(entity.node) or names.only
    rank = entity.rank
    if not node and host:
        named = names.canonical(host)
        node = named if names.nodes and names.is_member(named) else ""
    if rank is not None:
        if node and names.is_member(node):
            weights = links.rank_node.setdefault(rank, {})
            weights[node] = weights.get(node, 0) + 1
        if entity.pid is not None:
            links.pid_rank.setdefault((node, entity.pid), set()).add(rank)
        if entity.local_rank is not None:
            links.local_rank.setdefault((node, entity.local_rank), set()).add(rank)
    elif entity.local_rank is not None and entity.pid is not None and node:
        links.local_pid.setdefault((node, entity.pid), set()).add(entity.local_rank)
    if entity.pod and node:
        links.pod_node.setdefault(entity.pod, set()).add(node)
    pci = normal_pci(entity.gpu_pci) if entity.gpu_pci else ""
    labels = (entity.gpu_index, pci, entity.gpu_uuid, entity.gpu_serial)
    if sum(1 for name in labels if name not in (None, "")) == 0 or not node:
        return
    links.gpu_names.setdefault(node, []).append(labels)
    label = _strongest(labels)
    if rank is not None:
        links.rank_gpu.setdefault(rank, set()).add((node, *label))
    elif entity.local_rank is not None:
        links.local_gpu.setdefault((node, entity.local_rank), set()).add((node, *label))
    elif entity.pid is not None:
        links.gpu_pid.setdefault((node, tag(*label)), set()).add(entity.pid)


def _strongest(names: tuple[int | None, str, str, str]) -> tuple[str, str]:
    index, pci, uuid, serial = names
    for kind, name in (("p", pci), ("u", uuid), ("s", serial)):
        if name:
            return kind, name
    return "#", str(index)


def tag(kind: str, name: str) -> str:
    """Return a device name as the alias table spells it; an index carries `#`."""
    return f"#{name}" if kind == "#" else name
