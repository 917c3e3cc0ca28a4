"""How subjects and parts appear in the document: entity references, grouped nodes and ranks."""

from engine.entities import Directory
from engine.episodes import Episode
from engine.model.verdict import AffectedEntity, AffectedNode, AffectedRank, EntityRef, NodeGpu
from engine.model.vocabulary import EntityKind
from engine.names import Gpu
from engine.report.exhibits import Exhibits
from engine.roles import Cast, Part

MAX_VICTIMS = 32
# A program's error on all ranks of a large job: the first tell as much as all of them.
MAX_NAMED = 256
EVIDENCE_PER_PART = 4


def refer(episode: Episode, directory: Directory, job_id: str) -> EntityRef:
    """Return the reference to what an episode is about, in the kind that its symptom names."""
    s = episode.subject
    kind = episode.meaning.entity
    node = s.node or None
    if s.gpu and (s.is_gpu_explicit or kind == "gpu"):
        return _gpu_ref(s.gpu, directory)
    named: list[tuple[EntityKind, str]] = [
        ("nic", s.nic), ("link", s.link), ("switch", s.switch), ("filesystem", s.filesystem),
    ]  # fmt: skip
    for name, value in named:
        if value:
            return EntityRef(kind=name, id=value, node=node)
    if kind in ("job", "queue"):
        return EntityRef(kind="job", id=job_id)
    if s.rank is not None and kind != "node":
        return EntityRef(kind="rank", id=str(s.rank), node=node)
    if s.pod and kind in ("pod", "process"):
        return EntityRef(kind="pod", id=s.pod, node=node)
    if s.node:
        return EntityRef(kind="node", id=s.node, node=s.node)
    if s.pid is not None:
        return EntityRef(kind="process", id=str(s.pid), node=node)
    return EntityRef(kind="job", id=job_id)


def _device(key: str, directory: Directory) -> Gpu:
    known = directory.gpus.get(key)
    if known is not None:
        return known
    node, _, name = key.partition("|")
    index = int(name[1:]) if name.startswith("#") and name[1:].isdigit() else None
    return Gpu(node, index)


def _gpu_ref(key: str, directory: Directory) -> EntityRef:
    gpu = _device(key, directory)
    return EntityRef(
        kind="gpu",
        id=key.replace("|", "/"),
        node=gpu.node or None,
        index=gpu.index,
        pci=gpu.pci or None,
        uuid=gpu.uuid or None,
        serial=gpu.serial or None,
    )


def affected_entities(
    cast: Cast, directory: Directory, exhibits: Exhibits, causes: dict[str, str]
) -> list[AffectedEntity]:
    """Return culprits, suspects and observed entities with evidence, then the first victims."""
    found: list[AffectedEntity] = []
    for kind in ("node", "gpu", "nic", "link", "switch", "filesystem", "rank"):
        for part in cast.of(kind, "culprit", "suspect", "observed")[:MAX_NAMED]:
            found.append(_entity(part, directory, exhibits, causes))
    return found


def _entity(
    part: Part, directory: Directory, exhibits: Exhibits, causes: dict[str, str]
) -> AffectedEntity:
    cited: list[str] = []
    for episode in sorted(part.episodes, key=lambda e: (e.onset_latest, e.episode_id))[:4]:
        cited += [i for i in exhibits.cite(episode, EVIDENCE_PER_PART) if i not in cited]
    if part.kind == "gpu":
        base = _gpu_ref(part.id, directory).model_dump()
    else:
        base = {"kind": part.kind, "id": part.id, "node": part.node or None}
    return AffectedEntity.model_validate(
        {
            **base,
            "role": part.role,
            "cause_id": causes.get(part.cause),
            "evidence": tuple(cited[:EVIDENCE_PER_PART]),
        }
    )


def affected_nodes(cast: Cast, directory: Directory) -> tuple[list[AffectedNode], int]:
    """Return the nodes with their GPUs and ranks, and how many victims were left out."""
    ranks_of: dict[str, list[int]] = {}
    for part in cast.of("rank"):
        ranks_of.setdefault(part.node, []).append(int(part.id))
    gpus_of: dict[str, list[NodeGpu]] = {}
    for part in cast.of("gpu"):
        gpu = _device(part.id, directory)
        gpus_of.setdefault(part.node, []).append(
            NodeGpu(index=gpu.index, pci=gpu.pci or None, uuid=gpu.uuid or None, role=part.role)
        )
    found: list[AffectedNode] = []
    omitted = 0
    victims = 0
    for part in cast.of("node"):
        if part.role == "victim":
            victims += 1
            if victims > MAX_VICTIMS:
                omitted += 1
                continue
        found.append(
            AffectedNode(
                node=part.id,
                role=part.role,
                gpus=tuple(gpus_of.get(part.id, ())),
                ranks=tuple(sorted(ranks_of.get(part.id, ()))[:64]),
                reasons=tuple(sorted(part.reasons)),
            )
        )
    return found, omitted


def affected_ranks(cast: Cast) -> tuple[list[AffectedRank], int]:
    """Return culprit and suspect ranks, the first victims, and how many were left out."""
    found: list[AffectedRank] = []
    omitted = cast.uncast_ranks
    victims = named = 0
    for part in cast.of("rank"):
        if part.role == "victim":
            victims += 1
            if victims > MAX_VICTIMS:
                omitted += 1
                continue
        elif (named := named + 1) > MAX_NAMED:
            omitted += 1
            continue
        found.append(
            AffectedRank(
                rank=int(part.id),
                node=part.node or None,
                role=part.role,
                reasons=tuple(sorted(part.reasons)),
            )
        )
    return found, omitted
