"""One host, GPU and rank under all its names.

Names are united only by evidence that carries two of them at once: a label, an NCCL init line, a
launcher's table, a metric sample, the workload's own placement. What is derived instead (block
distribution, local rank as device index) is marked as inferred.
"""

from dataclasses import dataclass

from engine.model.observation import Entity, Observation
from engine.model.workload import Workload
from engine.names import Gpu, NodeNames, normal_pci, unite_gpus
from engine.sightings import Links, gather_links, tag


@dataclass(slots=True)
class Subject:
    """Who an observation is about, under canonical names; interned, so identity is equality."""

    number: int
    node: str = ""
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    pod: str = ""
    gpu: str = ""
    nic: str = ""
    link: str = ""
    switch: str = ""
    filesystem: str = ""
    is_gpu_explicit: bool = False
    ranks: tuple[int, ...] = ()


class Directory:
    """Resolves entities to subjects; built once from the workload and all observations."""

    def __init__(self, workload: Workload, observations: list[Observation]) -> None:
        self.names = NodeNames(workload)
        self.world_size = workload.world_size or 0
        self.rank_node: dict[int, str] = {}
        self.rank_node_inferred: set[int] = set()
        self.rank_gpu: dict[int, str] = {}
        self.rank_gpu_inferred: set[int] = set()
        self.gpus: dict[str, Gpu] = {}
        self.gpu_ranks: dict[str, list[int]] = {}
        self._alias: dict[tuple[str, str], str] = {}
        self._pid_rank: dict[tuple[str, int], int] = {}
        self._local: dict[tuple[str, int], int] = {}
        self._rank_local: dict[int, int] = {}
        self._pod_node: dict[str, str] = {}
        self._node_ranks: dict[str, list[int]] = {}
        self.placed_ranks = frozenset(placement.rank for placement in workload.ranks)
        self._subjects: dict[tuple[object, ...], Subject] = {}
        self._cache: dict[tuple[Entity, str], Subject] = {}
        links = gather_links(workload, observations, self.names)
        self._place_ranks(workload, links)
        for rank in sorted(self.rank_node):
            self._node_ranks.setdefault(self.rank_node[rank], []).append(rank)
        self._name_gpus(workload, links)
        for rank, key in sorted(self.rank_gpu.items()):
            self.gpu_ranks.setdefault(key, []).append(rank)

    def _place_ranks(self, workload: Workload, links: Links) -> None:
        for rank, weights in links.rank_node.items():
            self.rank_node[rank] = min(weights, key=lambda node: (-weights[node], node))
        nodes = self.names.nodes
        size = self.world_size
        if nodes and size and size % len(nodes) == 0:
            per_node = size // len(nodes)
            # Block distribution is what Slurm and torchrun do by default; it must not contradict
            # a single known placement before it may fill the rest.
            fits = all(
                rank // per_node < len(nodes) and nodes[rank // per_node] == node
                for rank, node in self.rank_node.items()
            )
            if len(nodes) == 1 or (fits and per_node):
                for rank in range(min(size, 1_000_000)):
                    if rank not in self.rank_node:
                        self.rank_node[rank] = nodes[rank // per_node]
                        if len(nodes) > 1:
                            self.rank_node_inferred.add(rank)
                    self._rank_local.setdefault(rank, rank % per_node)
        for (node, local), ranks in links.local_rank.items():
            if len(ranks) == 1:
                only = next(iter(ranks))
                self._rank_local[only] = local
                self._local[(node, local)] = only
        for rank, local in sorted(self._rank_local.items()):
            self._local.setdefault((self.rank_node.get(rank, ""), local), rank)
        for (node, pid), locals_ in links.local_pid.items():
            for local in locals_:
                if (found := self._local.get((node, local))) is not None:
                    links.pid_rank.setdefault((node, pid), set()).add(found)
        for (node, local), labels in links.local_gpu.items():
            if (found := self._local.get((node, local))) is not None:
                links.rank_gpu.setdefault(found, set()).update(labels)
        for (node, pid), ranks in links.pid_rank.items():
            if len(ranks) == 1:
                self._pid_rank[(node, pid)] = next(iter(ranks))
        for pod, owners in links.pod_node.items():
            if len(owners) == 1:
                self._pod_node[pod] = next(iter(owners))

    def _name_gpus(self, workload: Workload, links: Links) -> None:
        for node, sightings in sorted(links.gpu_names.items()):
            for gpu in unite_gpus(node, sightings):
                self._remember(gpu)
        for rank, labels in sorted(links.rank_gpu.items()):
            keys = {self._alias.get((node, tag(kind, name))) for node, kind, name in labels}
            keys.discard(None)
            if not keys:
                for node, kind, name in sorted(labels):
                    if kind == "#":
                        gpu = Gpu(node=node, index=int(name))
                        self._remember(gpu)
                        keys.add(gpu.key)
            if len(keys) == 1:
                self.rank_gpu[rank] = str(next(iter(keys)))
            elif len(keys) == 2:
                self._join_by_rank(rank, sorted(str(key) for key in keys))
        self._match_by_count(links)
        taken = set(self.rank_gpu.values())
        for (node, name), pids in sorted(links.gpu_pid.items()):
            key = self._alias.get((node, name))
            owners = {r for p in pids if (r := self._pid_rank.get((node, p))) is not None}
            if key is None or len(owners) != 1:
                continue
            rank = next(iter(owners))
            other = self.rank_gpu.get(rank)
            if other is None and key not in taken:
                self.rank_gpu[rank] = key
                taken.add(key)
            elif other is not None and other != key:
                self._join_by_rank(rank, sorted((other, key)))

    def _match_by_count(self, links: Links) -> None:
        """A job that holds every device of a node uses them in local-rank order by default."""
        by_node: dict[str, dict[int | None, str]] = {}
        for gpu in self.gpus.values():
            by_node.setdefault(gpu.node, {})[gpu.index] = gpu.key
        for node in self.names.nodes:
            ranks = self.ranks_of_node(node)
            indexed = by_node.get(node, {})
            if not ranks or not indexed or any(rank in self.rank_gpu for rank in ranks):
                continue
            locals_ = [self._rank_local.get(rank) for rank in ranks]
            if sorted(local for local in locals_ if local is not None) != list(range(len(ranks))):
                continue
            if any(index is not None and index >= len(ranks) for index in indexed):
                # More devices than ranks: which of them the job holds is not known.
                continue
            for rank, local in zip(ranks, locals_, strict=True):
                if local in indexed:
                    self.rank_gpu[rank] = indexed[local]
                    self.rank_gpu_inferred.add(rank)

    def _join_by_rank(self, rank: int, keys: list[str]) -> None:
        """Unite an index-only name with an address when one rank carries both."""
        first, second = (self.gpus[key] for key in keys)
        if first.node != second.node:
            return
        bare, full = (first, second) if not (first.pci or first.uuid) else (second, first)
        if (bare.pci or bare.uuid) or full.index is not None or bare.index is None:
            return
        full.index = bare.index
        old, new = bare.key, full.key
        self.gpus.pop(old, None)
        for alias, key in list(self._alias.items()):
            if key == old:
                self._alias[alias] = new
        for other, key in list(self.rank_gpu.items()):
            if key == old:
                self.rank_gpu[other] = new
        self.rank_gpu[rank] = new

    def _remember(self, gpu: Gpu) -> None:
        known = self.gpus.setdefault(gpu.key, gpu)
        for kind, name in (("p", known.pci), ("u", known.uuid), ("s", known.serial)):
            if name:
                self._alias[(known.node, name)] = known.key
                if kind == "u":
                    self._alias.setdefault(("", name), known.key)
        if known.index is not None:
            self._alias.setdefault((known.node, f"#{known.index}"), known.key)

    def gpu_key(self, node: str, entity: Entity) -> str:
        """Return the canonical key of the device that an entity names, or empty."""
        names = (
            normal_pci(entity.gpu_pci) if entity.gpu_pci else "",
            entity.gpu_uuid,
            entity.gpu_serial,
            "" if entity.gpu_index is None else f"#{entity.gpu_index}",
        )
        for name in names:
            if name and (key := self._alias.get((node, name)) or self._alias.get(("", name))):
                return key
        if not node or not any(names):
            return ""
        gpu = Gpu(node, entity.gpu_index, names[0], entity.gpu_uuid, entity.gpu_serial)
        self._remember(gpu)
        return gpu.key

    def subject(self, entity: Entity, node_override: str = "") -> Subject:
        """Return the interned subject of an entity; `node_override` is a trusted pointer."""
        key = (entity, node_override)
        found = self._cache.get(key)
        if found is None:
            found = self._resolve(entity, node_override)
            self._cache[key] = found
        return found

    def _resolve(self, entity: Entity, node_override: str) -> Subject:
        if node_override and entity.node and node_override != self.names.canonical(entity.node):
            # Said of another node: whoever printed it is not who it is about.
            entity = Entity(gpu_pci=entity.gpu_pci, gpu_uuid=entity.gpu_uuid, nic=entity.nic)
        node = node_override or self.names.canonical(entity.node)
        if not node and entity.pod:
            node = self._pod_node.get(entity.pod, "")
        node = node or self.names.only
        rank = entity.rank
        gpu = self.gpu_key(node, entity)
        ranks: tuple[int, ...] = ()
        if gpu and rank is None and (not node or gpu.startswith(f"{node}|")):
            # A kernel line about a device may carry any process's pid; the device decides.
            ranks = tuple(self.gpu_ranks.get(gpu, ()))
            home = node or gpu.split("|", 1)[0]
            return self._intern(entity, home, None, ranks=ranks, gpu=gpu, explicit=True)
        if rank is None and entity.pid is not None:
            rank = self._pid_rank.get((node, entity.pid))
            if rank is None:
                rank = self._pid_rank.get(("", entity.pid))
        if rank is None and entity.local_rank is not None and node:
            rank = self._local.get((node, entity.local_rank))
        if not node and rank is not None:
            node = self.rank_node.get(rank, "")
        if rank is not None:
            ranks = (rank,)
        elif gpu:
            ranks = tuple(self.gpu_ranks.get(gpu, ()))
        explicit = bool(gpu)
        if not gpu and rank is not None:
            gpu = self.rank_gpu.get(rank, "")
        if gpu and not node:
            node = gpu.split("|", 1)[0]
        return self._intern(entity, node, rank, ranks=ranks, gpu=gpu, explicit=explicit)

    def _intern(
        self,
        entity: Entity,
        node: str,
        rank: int | None,
        *,
        ranks: tuple[int, ...],
        gpu: str,
        explicit: bool,
    ) -> Subject:
        # A pid or pod only tells subjects apart where the rank does not already do so.
        pid = entity.pid if rank is None and not explicit else None
        pod = entity.pod if rank is None else ""
        local = entity.local_rank if rank is None else self._rank_local.get(rank)
        shape = (
            node, rank, local if rank is None else None, pid, pod, gpu, explicit,
            entity.nic, entity.link, entity.switch, entity.filesystem,
        )  # fmt: skip
        found = self._subjects.get(shape)
        if found is None:
            found = Subject(
                len(self._subjects), node, rank, local, pid, pod, gpu, entity.nic, entity.link,
                entity.switch, entity.filesystem, explicit, ranks,
            )  # fmt: skip
            self._subjects[shape] = found
        return found

    def holds_gpu(self, gpu: str) -> bool | None:
        """Whether the job holds a device; None where its devices on that node are not all known."""
        if gpu in self.gpu_ranks:
            return True
        known = self.gpus.get(gpu)
        if known is None:
            return None
        ranks = self.ranks_of_node(known.node)
        mapped = [r for r in ranks if r in self.rank_gpu and r not in self.rank_gpu_inferred]
        if not ranks or len(mapped) < len(ranks):
            return None
        # A bare index and a bus address cannot be told apart, so they settle nothing.
        kinds = {bool(self.gpus[self.rank_gpu[rank]].pci) for rank in mapped}
        return False if kinds == {bool(known.pci)} else None

    def local_rank(self, rank: int) -> int | None:
        """Return the local rank of a global rank, where known."""
        return self._rank_local.get(rank)

    def ranks_of_node(self, node: str) -> list[int]:
        """Return the ranks placed on a node, ascending."""
        return self._node_ranks.get(node, [])
