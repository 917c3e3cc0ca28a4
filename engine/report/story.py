"""Symptoms with their roles, and which of them explain which."""

from engine.correlate import Graph
from engine.decide import Decision
from engine.entities import Directory
from engine.episodes import Episode, may_precede
from engine.model.moment import rfc3339
from engine.model.verdict import EntityRef, Symptom
from engine.model.vocabulary import EpisodeRole
from engine.moments import OPEN_FUTURE, OPEN_PAST, known
from engine.report.exhibits import Exhibits
from engine.report.subjects import refer

MAX_PER_GROUP = 8
MAX_PARENTS = 6
_ROLE_ORDER: dict[str, int] = {
    "root": 0, "contributing": 1, "downstream": 2, "teardown": 3, "unrelated": 4, "noise": 5,
}  # fmt: skip


class Story:
    """Gives every episode its role and its parents."""

    def __init__(
        self, episodes: list[Episode], graph: Graph, decision: Decision, *, directory: Directory,
        job_id: str,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._decision = decision
        self._directory = directory
        self._job_id = job_id
        self._episodes = episodes
        self._roots = {id(e) for cause in decision.causes for e in cause.episodes}
        self._below: set[int] = set()
        for cause in decision.causes:
            for position in cause.positions:
                self._below |= graph.descendants(position)
        self._contributing = {id(e) for e in decision.contributing}
        self._position = {id(e): i for i, e in enumerate(graph.episodes)}

    def role(self, episode: Episode) -> tuple[EpisodeRole, str]:
        """Return the role of an episode and, where it was set aside, the reason."""
        if episode.reason:
            if episode.reason == "known_noise" or episode.meaning.role == "noise":
                return "noise", episode.reason
            return "unrelated", episode.reason
        if id(episode) in self._roots:
            return "root", ""
        position = self._position.get(id(episode))
        dropped = self._decision.dropped.get(-1 if position is None else position, "")
        if dropped in ("after_stop", "after_failure"):
            return "teardown", dropped
        if dropped:
            return "unrelated", dropped
        if episode.meaning.role == "teardown":
            return "teardown", ""
        if episode.meaning.role == "marker":
            return "unrelated", ""
        if position is not None and position in self._below:
            return "downstream", ""
        if id(episode) in self._contributing:
            return "contributing", ""
        return self._beside(episode)

    def _beside(self, episode: Episode) -> tuple[EpisodeRole, str]:
        """Cascade symptoms are explained job-wide by a root that can precede them."""
        if self._decision.domain == "none":
            return "unrelated", "job_completed"
        heads = [cause.head for cause in self._decision.causes]
        if episode.meaning.role in ("secondary", "confirm") and any(
            may_precede(head, episode) for head in heads
        ):
            return "downstream", ""
        return "unrelated", "" if heads else "no_root"

    def parents(self, episode: Episode, role: str) -> list[str]:
        """Return ids of what explains an episode."""
        if role != "downstream":
            return []
        position = self._position.get(id(episode))
        found: list[str] = []
        if position is not None:
            found = sorted(
                {
                    self._graph.episodes[edge.cause].episode_id
                    for edge in self._graph.parents[position][:64]
                }
            )
        if not found:
            found = sorted({c.head.episode_id for c in self._decision.causes})
        return found[:MAX_PARENTS]

    def symptoms(self, exhibits: Exhibits) -> list[Symptom]:
        """Return the symptoms, roots first; large groups become a counted rest."""
        groups: dict[tuple[int, str, str, str], list[Episode]] = {}
        for episode in self._episodes:
            role, reason = self.role(episode)
            key = (_ROLE_ORDER[role], role, episode.symptom, reason)
            groups.setdefault(key, []).append(episode)
        found: list[Symptom] = []
        for (_, role_name, _, reason), members in sorted(groups.items()):
            role = _as_role(role_name)
            members.sort(key=lambda e: (e.onset_latest, e.onset_earliest, _place(e)))
            limit = 64 if role == "root" else MAX_PER_GROUP
            for episode in members[:limit]:
                found.append(self._symptom(episode, role, reason, exhibits))
            if rest := members[limit:]:
                found.append(self._rest(rest, role, reason))
        return found

    def _symptom(
        self, episode: Episode, role: EpisodeRole, reason: str, exhibits: Exhibits
    ) -> Symptom:
        return Symptom(
            episode_id=episode.episode_id,
            symptom=episode.symptom,
            role=role,
            caused_by=tuple(self.parents(episode, role)),
            first_seen=moment(episode.seen_first),
            last_seen=moment(episode.seen_last),
            count=episode.count,
            entity=refer(episode, self._directory, self._job_id),
            evidence=tuple(exhibits.cite(episode, 3 if role == "root" else 1)),
            reason=reason or None,
        )

    def _rest(self, rest: list[Episode], role: EpisodeRole, reason: str) -> Symptom:
        first = min(e.seen_first for e in rest)
        last = max(e.seen_last for e in rest)
        return Symptom(
            episode_id=rest[0].episode_id + "+",
            symptom=rest[0].symptom,
            role=role,
            first_seen=moment(first),
            last_seen=moment(last),
            count=sum(e.count for e in rest),
            entity=EntityRef(kind="job", id=self._job_id),
            reason=reason or f"{len(rest)} more episodes of this symptom, counted only",
        )


def _place(episode: Episode) -> tuple[object, ...]:
    s = episode.subject
    return (s.node, -1 if s.rank is None else s.rank, s.gpu, s.nic, s.link, s.pod, str(s.pid))


def _as_role(name: str) -> EpisodeRole:
    return name  # type: ignore[return-value]


def moment(value: int) -> str | None:
    """Return RFC 3339 of a bounded moment, or None."""
    if value in (OPEN_PAST, OPEN_FUTURE) or known(value) is None:
        return None
    return rfc3339(value)
