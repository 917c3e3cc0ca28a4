"""The causal graph over episodes: cause rules looked up by join keys, never pair by pair."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.episodes import Episode, stands_before
from engine.moments import MINUTE_US, OPEN_FUTURE, OPEN_PAST, slack_us
from engine.names import NodeNames
from engine.rulebook.book import CauseDef

Key = tuple[str, str]
# Up to this many causes on one key are compared one by one; beyond it the extremes stand for all.
EXACT_CAUSES = 16
EXTREME_CAUSES = 2
# A device lost long before the start explains what such a loss explains for ever (it is missing
# at the start); rules about minutes keep their windows.
LASTING_WINDOW_US = 24 * 60 * MINUTE_US


@dataclass(slots=True, frozen=True)
class Edge:
    """`cause` explains `effect` (positions in the graph's episode list) by a rule."""

    cause: int
    effect: int
    rule: str
    is_sufficient: bool


@dataclass(slots=True)
class Graph:
    """Episodes that count, and what explains what."""

    episodes: list[Episode]
    parents: list[list[Edge]] = field(default_factory=list)
    children: list[list[Edge]] = field(default_factory=list)
    not_evaluated: list[tuple[str, str]] = field(default_factory=list)
    _above: dict[int, set[int]] = field(default_factory=dict)
    _below: dict[int, set[int]] = field(default_factory=dict)

    def add(self, edge: Edge) -> None:
        """Add an edge once per pair; a sufficient one replaces a contributing one."""
        if edge.cause == edge.effect:
            return
        for known in self.parents[edge.effect]:
            if known.cause == edge.cause and (known.is_sufficient or not edge.is_sufficient):
                return
        self.parents[edge.effect].append(edge)
        self.children[edge.cause].append(edge)

    def ancestors(self, position: int) -> set[int]:
        """Return everything that explains `position` through sufficient edges."""
        if position not in self._above:
            self._above[position] = _walk(position, self.parents, lambda edge: edge.cause)
        return self._above[position]

    def descendants(self, position: int) -> set[int]:
        """Return everything that `position` explains through sufficient edges."""
        if position not in self._below:
            self._below[position] = _walk(position, self.children, lambda edge: edge.effect)
        return self._below[position]


def _walk(start: int, edges: list[list[Edge]], other: Callable[[Edge], int]) -> set[int]:
    seen: set[int] = set()
    stack = [start]
    while stack:
        for edge in edges[stack.pop()]:
            target = other(edge)
            if edge.is_sufficient and target not in seen:
                seen.add(target)
                stack.append(target)
    seen.discard(start)
    return seen


class Correlator:
    """Builds the graph of one case."""

    def __init__(
        self, episodes: list[Episode], rules: tuple[CauseDef, ...], names: NodeNames
    ) -> None:
        self._graph = Graph(episodes, [[] for _ in episodes], [[] for _ in episodes])
        self._rules = rules
        self._names = names
        self._by_symptom: dict[str, list[int]] = {}
        for position, episode in enumerate(episodes):
            self._by_symptom.setdefault(episode.symptom, []).append(position)
        self._cause_index: dict[tuple[tuple[str, ...], str], dict[Key, list[int]]] = {}

    def build(self) -> Graph:
        """Return the graph; a rule that raises is listed and the rest goes on."""
        for rule in self._rules:
            if rule.status != "stable":
                continue
            try:
                self._apply(rule)
            except Exception as error:  # noqa: BLE001 - the one point that isolates a rule
                self._graph.not_evaluated.append(
                    (rule.rule, f"{type(error).__name__}: {error}"[:300])
                )
        return self._graph

    def _apply(self, rule: CauseDef) -> None:
        present = self._by_symptom
        if any(name not in present for name in rule.requires):
            return
        if any(name in present for name in rule.unless):
            return
        causes = [name for name in rule.causes if name in present]
        effects = [name for name in rule.effects if name in present]
        if not causes or not effects:
            return
        episodes = self._graph.episodes
        sufficient = rule.strength == "sufficient"
        for join in rule.joins:
            index = self._index(tuple(sorted(causes)), join)
            for effect in effects:
                for position in present[effect]:
                    for key in effect_keys(episodes[position], join, self._names):
                        group = index.get(key)
                        if group is None:
                            continue
                        for found in self._feasible(group, position, rule):
                            self._graph.add(Edge(found, position, rule.rule, sufficient))

    def _index(self, symptoms: tuple[str, ...], join: str) -> dict[Key, list[int]]:
        index = self._cause_index.get((symptoms, join))
        if index is None:
            index = {}
            episodes = self._graph.episodes
            for symptom in symptoms:
                for position in self._by_symptom[symptom]:
                    for key in cause_keys(episodes[position], join):
                        index.setdefault(key, []).append(position)
            for group in index.values():
                group.sort(key=lambda at: (episodes[at].onset_earliest, at))
            self._cause_index[(symptoms, join)] = index
        return index

    def _feasible(self, group: list[int], effect: int, rule: CauseDef) -> Iterator[int]:
        episodes = self._graph.episodes
        target = episodes[effect]
        if len(group) > EXACT_CAUSES:
            bound = target.onset_latest - rule.min_us + slack_us("", "")
            end = bisect_right(group, bound, key=lambda at: episodes[at].onset_earliest)
            near = group[max(0, end - EXTREME_CAUSES) : end]
            group = sorted({*group[:EXTREME_CAUSES], *near})
        for position in group:
            if position != effect and fits(episodes[position], target, rule):
                yield position


def fits(cause: Episode, effect: Episode, rule: CauseDef) -> bool:
    """Whether effect onset minus cause onset can lie in the rule's window."""
    slack = slack_us(cause.clock, effect.clock)
    latest = cause.onset_latest
    highest = (
        OPEN_FUTURE
        if effect.onset_latest == OPEN_FUTURE or cause.onset_earliest == OPEN_PAST
        else effect.onset_latest - cause.onset_earliest
    )
    lowest = (
        OPEN_PAST
        if effect.onset_earliest == OPEN_PAST or latest == OPEN_FUTURE
        else effect.onset_earliest - latest
    )
    if highest < rule.min_us - slack:
        return False
    may_last = cause.is_lasting and rule.max_us >= LASTING_WINDOW_US
    if lowest > rule.max_us + slack and not may_last:
        return False
    return rule.min_us < 0 or not stands_before(effect, cause)


def cause_keys(episode: Episode, join: str) -> tuple[Key, ...]:
    """Return the keys under which a cause can be found for a join.

    A device is found by itself, and by its node from effects that name no device.
    """
    s = episode.subject
    node = s.node
    if join == "job":
        return (("job", ""),)
    if join in ("same_node", "nvlink_domain"):
        return (("n", node),) if node else ()
    if join == "same_gpu":
        return _specific(s.gpu, node, is_firm="|#" not in s.gpu)
    if join in ("same_link", "same_nic"):
        device = s.link if join == "same_link" else s.nic
        return _specific(f"{node}|{device}" if device else "", node, is_firm=True)
    if join in ("same_switch", "same_filesystem"):
        device = s.switch if join == "same_switch" else s.filesystem
        return (("d", device), ("j", "")) if device else (("j", ""), ("j?", ""))
    if join == "same_rank":
        return tuple(("r", str(rank)) for rank in s.ranks)
    if join == "same_process":
        if s.ranks:
            return tuple(("r", str(rank)) for rank in s.ranks)
        return (("p", f"{node}|{s.pid}"),) if s.pid is not None else ()
    if join == "named_peer":
        keys = [("r", str(rank)) for rank in s.ranks]
        return (*keys, ("n", node)) if node else tuple(keys)
    return ()


def _specific(device: str, node: str, *, is_firm: bool) -> tuple[Key, ...]:
    if not device:
        return (("n", node), ("n?", node)) if node else ()
    return (("d", device), ("n", node)) if is_firm else (("d", device), ("n", node), ("n?", node))


def effect_keys(episode: Episode, join: str, names: NodeNames) -> tuple[Key, ...]:
    """Return the keys by which an effect looks for its causes."""
    s = episode.subject
    node = s.node
    if join == "same_gpu":
        return _look(s.gpu, node, is_firm=bool(s.gpu) and "|#" not in s.gpu)
    if join in ("same_link", "same_nic"):
        device = s.link if join == "same_link" else s.nic
        return _look(f"{node}|{device}" if device else "", node, is_firm=bool(device))
    if join in ("same_switch", "same_filesystem"):
        device = s.switch if join == "same_switch" else s.filesystem
        return (("d", device), ("j?", "")) if device else (("j", ""),)
    if join == "named_peer":
        return _pointer_keys(episode, names)
    return cause_keys(episode, join)


def _look(device: str, node: str, *, is_firm: bool) -> tuple[Key, ...]:
    """A firm device finds itself and causes that name none; otherwise the node must do."""
    if is_firm:
        return (("d", device), ("n?", node)) if node else (("d", device),)
    if device:
        return (("d", device), ("n", node))
    return (("n", node),) if node else ()


def _bare_address(text: str) -> str:
    """Strip port marks and IPv6 mapping: `10.0.0.2<47042>`, `[::ffff:10.0.0.2]:29500`."""
    bare = text.split("<", 1)[0].strip("[]")
    bare = bare.removeprefix("::ffff:")
    if bare.count(":") == 1:
        bare = bare.split(":", 1)[0]
    return bare.strip("[]")


def _pointer_keys(episode: Episode, names: NodeNames) -> tuple[Key, ...]:
    keys: set[Key] = set()
    for kind, value in episode.pointers:
        if kind == "peer_rank":
            if value.isdigit():
                keys.add(("r", str(int(value))))
        else:
            keys.add(("n", names.canonical(_bare_address(value))))
    return tuple(sorted(keys))
