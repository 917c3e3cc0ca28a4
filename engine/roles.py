"""Who takes which part: culprits only where evidence on that very entity says so."""

from dataclasses import dataclass, field
from itertools import islice

from engine.anchor import Anchor
from engine.candidates import Cause
from engine.correlate import Graph
from engine.decide import Decision
from engine.entities import Directory
from engine.episodes import Episode
from engine.meanings import ENGINE_RULE
from engine.model.vocabulary import NODE_CULPRIT_DOMAINS, EntityRole, QualityLevel

_RANK_DOMAINS = frozenset({"application", "framework", "data"})
# The engine's own findings about where a collective got stuck name ranks and no domain.
_LOCATED = frozenset({"rank_never_entered", "rank_lagging"})
# Accelerators whose devices hold several cores: a local rank is no device index there.
_OWN_NUMBERING = frozenset({"gpu/neuron_hardware_error", "gpu/neuron_collective_hang"})
_NOT_OWN = ("collective_failure", "rank_exit", "launcher_report", "store_error", "teardown")
# One process prints an exception of its data loader twice: the worker's and its own.
_ONE_RANK_SAYS = 2
MAX_VICTIM_RANKS = 65_536
_ROLE_ORDER: dict[str, int] = {"culprit": 0, "suspect": 1, "victim": 2, "observed": 3}


@dataclass(slots=True)
class Part:
    """One entity's part in the failure. `id` is the rank number, node name or device key."""

    kind: str
    id: str
    node: str
    role: EntityRole
    cause: str = ""
    episodes: list[Episode] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)


class Cast:
    """All parts, by kind and id; a stronger role replaces a weaker one."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, str, str], Part] = {}
        self.uncast_ranks = 0  # victims beyond `MAX_VICTIM_RANKS`: counted, not listed

    def give(
        self, kind: str, name: str, node: str, *, role: EntityRole, episode: Episode | None = None,
        cause: str = "", reason: str = "",
    ) -> None:  # fmt: skip
        """Give an entity a part, or strengthen the one that it has."""
        key = (kind, node if kind != "rank" else "", name)
        part = self.parts.get(key)
        if part is None:
            part = self.parts[key] = Part(kind, name, node, role, cause)
        if _ROLE_ORDER[role] < _ROLE_ORDER[part.role]:
            part.role, part.cause = role, cause
            part.episodes, part.reasons = [], set()
        if role == part.role:
            if episode is not None and episode not in part.episodes:
                part.episodes.append(episode)
            if reason:
                part.reasons.add(reason)
        part.node = part.node or node

    def of(self, kind: str, *roles: str) -> list[Part]:
        """Return the parts of a kind, in a stable order, of these roles (all where none)."""
        found = [p for p in self.parts.values() if p.kind == kind]
        if roles:
            found = [p for p in found if p.role in roles]
        return sorted(found, key=_part_order)


def _part_order(part: Part) -> tuple[object, ...]:
    number = int(part.id) if part.kind == "rank" else 0
    return (_ROLE_ORDER[part.role], part.kind, part.node, number, part.id)


def cast_roles(
    decision: Decision,
    level: QualityLevel,
    graph: Graph,
    directory: Directory,
    *,
    anchor: Anchor,
) -> Cast:
    """Return every entity's part."""
    cast = Cast()
    role: EntityRole = "culprit" if level in ("definitive", "probable") else "suspect"
    for cause in decision.causes:
        _cast_cause(cast, cause, role, graph=graph, directory=directory)
        _cast_speaker(cast, cause, role, anchor=anchor, directory=directory)
    if decision.domain != "none":
        _cast_victims(cast, decision, graph, directory)
    return cast


def _cast_cause(
    cast: Cast, cause: Cause, role: EntityRole, *, graph: Graph, directory: Directory
) -> None:
    accused = accused_nodes(cause, directory)
    software = cause.domain in _RANK_DOMAINS or cause.symptom in _LOCATED
    accuses = cause.symptom in _LOCATED or (
        cause.head.meaning.accuses and not _tells_of_others(cause, directory)
    )
    name_ranks = accuses and (software or bool(accused) or _is_used_up(cause))
    device = cause.domain in ("gpu", "nvlink", "pcie")
    if not software and _is_spread_over_node(cause):
        name_ranks = device = False
    for position, episode in zip(cause.positions, cause.episodes, strict=True):
        subject = episode.subject
        named = subject.node in accused
        if named:
            cast.give(
                "node", subject.node, subject.node, role=role, episode=episode,
                cause=cause.symptom, reason=cause.symptom,
            )  # fmt: skip
            if device:
                _cast_gpu(cast, cause, episode, role, directory=directory)
            for kind, name in (("nic", subject.nic), ("link", subject.link)):
                if name:
                    cast.give(
                        kind, name, subject.node, role=role, episode=episode, cause=cause.symptom
                    )
        if subject.switch and cause.domain in ("network", "nvlink"):
            cast.give("switch", subject.switch, "", role=role, episode=episode,
                      cause=cause.symptom)  # fmt: skip
        if subject.filesystem and cause.domain == "storage":
            cast.give("filesystem", subject.filesystem, "", role=role, episode=episode,
                      cause=cause.symptom)  # fmt: skip
        if name_ranks:
            speaks = named or _is_used_up(cause)
            for rank in _ranks_of(position, episode, speaks, graph=graph):
                if not _is_named(rank, episode, directory):
                    continue
                cast.give(
                    "rank", str(rank), directory.rank_node.get(rank, subject.node), role=role,
                    episode=episode, cause=cause.symptom, reason=cause.symptom,
                )  # fmt: skip


def _is_spread_over_node(cause: Cause) -> bool:
    """Whether several ranks of one node print a fault of the machine that it never logged itself.

    Both ends of a link complain alike: the node can be named, which of its devices cannot.
    """
    told = {episode.trust for episode in cause.episodes}
    if told & {"platform", "node"}:
        return False
    by_node: dict[str, set[tuple[int, ...]]] = {}
    for episode in cause.episodes:
        by_node.setdefault(episode.subject.node, set()).add(episode.subject.ranks)
    return any(len(ranks) > 1 for ranks in by_node.values())


def _cast_speaker(
    cast: Cast, cause: Cause, role: EntityRole, *, anchor: Anchor, directory: Directory
) -> None:
    """A job line without a rank is the only failed rank's, where there is only one.

    Launchers report which worker died; what the log printed without a rank prefix just before is
    then that worker's.
    """
    if not cause.head.meaning.accuses or len(anchor.first_ranks) != 1:
        return
    if _tells_of_others(cause, directory):
        return
    if any(e.subject.ranks for e in cause.episodes):
        return
    rank = anchor.first_ranks[0]
    node = directory.rank_node.get(rank, "")
    spoken = [e for e in cause.episodes if e.trust == "workload" and e.subject.node in ("", node)]
    accused = accused_nodes(cause, directory)
    if not spoken or not (cause.domain in _RANK_DOMAINS or accused):
        return
    if cause.domain in _RANK_DOMAINS and sum(e.count for e in spoken) > _ONE_RANK_SAYS:
        # Several ranks said it, whichever was seen to fail first.
        return
    if cause.domain == "nvlink" or cause.head.meaning.rule in _OWN_NUMBERING:
        # Whoever dies first of a fault that several ranks share need not be where it is.
        return
    cast.give("rank", str(rank), node, role=role, episode=spoken[0], cause=cause.symptom,
              reason=cause.symptom)  # fmt: skip
    local = directory.local_rank(rank)
    if cause.domain == "gpu" and node in accused:
        key = directory.rank_gpu.get(rank, "" if local is None else f"{node}|#{local}")
        if key:
            cast.give("gpu", key, node, role=role, episode=spoken[0], cause=cause.symptom)


def _ranks_of(position: int, episode: Episode, named: bool, *, graph: Graph) -> list[int]:
    """Ranks of the faulty device, or the only rank whose own errors a fault of the node explains.

    Of several ranks that fail with the same device error, those on other devices are victims.
    """
    ranks = set(episode.subject.ranks)
    if episode.trust == "workload" and episode.meaning.domain == "nvlink":
        # Every rank that uses a broken link prints the same.
        return []
    if ranks or not named or episode.trust == "workload":
        return sorted(ranks)
    for edge in graph.children[position]:
        effect = graph.episodes[edge.effect]
        if effect.subject.node != episode.subject.node or effect.has_tag(*_NOT_OWN):
            continue
        if effect.meaning.role in ("teardown", "marker", "noise"):
            continue
        ranks.update(effect.subject.ranks)
    for other in graph.episodes:
        # The same event told by the job: it may know the rank that the node does not.
        if (
            other.subject.ranks
            and other.subject.node == episode.subject.node
            and other.meaning.domain == episode.meaning.domain
            and other.is_candidate
            and not set(other.tags).isdisjoint(episode.tags)
        ):
            ranks.update(other.subject.ranks)
    return sorted(ranks) if len(ranks) == 1 and episode.meaning.domain != "nvlink" else []


def _is_named(rank: int, episode: Episode, directory: Directory) -> bool:
    """Whether a line says the rank itself, or its place is known and not only worked out.

    Which rank runs on a device follows from the order of the nodes only where there is one node.
    """
    if rank not in directory.rank_node_inferred:
        return True
    return any(item.entity.rank == rank for item in episode.observations)


def _cast_gpu(
    cast: Cast, cause: Cause, episode: Episode, role: EntityRole, *, directory: Directory
) -> None:
    subject = episode.subject
    key = subject.gpu
    if not key and cause.domain == "gpu" and cause.head.meaning.rule not in _OWN_NUMBERING:
        local = subject.local_rank
        if local is None and subject.rank is not None:
            local = directory.local_rank(subject.rank)
        if local is not None and subject.node:
            key = f"{subject.node}|#{local}"
    if key:
        cast.give("gpu", key, key.split("|", 1)[0], role=role, episode=episode,
                  cause=cause.symptom)  # fmt: skip


def accused_nodes(cause: Cause, directory: Directory) -> set[str]:
    """Return the nodes that a cause may name: evidence from the node itself, or an authority."""
    meaning = cause.head.meaning
    if cause.domain not in NODE_CULPRIT_DOMAINS or not meaning.accuses or _is_used_up(cause):
        return set()
    found: set[str] = set()
    for episode in cause.episodes:
        subject = episode.subject
        if not subject.node or not directory.names.is_member(subject.node):
            continue
        if _is_placed(episode, directory):
            found.add(subject.node)
    trusts = {episode.trust for episode in cause.episodes}
    everywhere = len(found) > 1 and found >= set(directory.names.nodes)
    if everywhere and trusts <= {"workload", "caller"} and cause.domain in ("network", "host"):
        # Every node saying the same of the world outside is no evidence against any of them.
        return set()
    return found


def _tells_of_others(cause: Cause, directory: Directory) -> bool:
    """Whether the ranks that printed an error of the program are merely where it was printed.

    A report about a collective is one side's view of it. What several ranks say, but not all, is
    a symmetrical error that the others did not live to print.
    """
    ranks = {rank for episode in cause.episodes for rank in episode.subject.ranks}
    world = directory.world_size
    if cause.symptom == "rank_mismatched":
        # Two sides of equal size differ from each other; neither is the odd one.
        return 2 * len(ranks) >= max(world, 1)
    if cause.domain not in _RANK_DOMAINS or cause.head.meaning.rule == ENGINE_RULE:
        return False
    if cause.head.has_tag("collective_failure"):
        return True
    return len(ranks) > 1 and (not world or len(ranks) < world)


def _is_used_up(cause: Cause) -> bool:
    """Memory that the job itself used up says nothing about the health of the node."""
    return cause.head.has_tag("host_oom")


def _is_placed(episode: Episode, directory: Directory) -> bool:
    """Whether the node is known from a label, a placement or an authority, not from mere text."""
    subject = episode.subject
    if episode.trust in ("platform", "node") or episode.has_tag("node_loss"):
        return True
    if subject.node == directory.names.only:
        return True
    if subject.ranks and directory.placed_ranks.issuperset(subject.ranks):
        return True
    return any(
        directory.names.canonical(o.entity.node) == subject.node for o in episode.observations
    )


def _cast_victims(cast: Cast, decision: Decision, graph: Graph, directory: Directory) -> None:
    _cast_rank_victims(cast, directory)
    for node in directory.names.nodes:
        cast.give("node", node, node, role="victim")
    for episode in decision.coincident:
        if episode.subject.gpu and episode.meaning.tier <= 1:
            cast.give("gpu", episode.subject.gpu, episode.subject.node, role="observed",
                      episode=episode)  # fmt: skip


def _cast_rank_victims(cast: Cast, directory: Directory) -> None:
    """Every rank of the job; of a vast one those that a document would list, the rest counted."""
    world, placed = directory.world_size, directory.rank_node
    unplaced = world - sum(rank < world for rank in placed)
    free = (rank for rank in range(world) if rank not in placed)
    for rank in islice(free, MAX_VICTIM_RANKS):
        cast.give("rank", str(rank), "", role="victim")
    left = max(0, MAX_VICTIM_RANKS - unplaced)
    shown = placed if len(placed) <= left else sorted(placed, key=lambda r: (placed[r], r))[:left]
    for rank in shown:
        cast.give("rank", str(rank), placed[rank], role="victim")
    cast.uncast_ranks = max(0, unplaced + len(placed) - len(cast.of("rank")))
