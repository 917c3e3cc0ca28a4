"""Episodes: all sightings of one symptom on one subject, folded."""

from dataclasses import dataclass, field

from engine.entities import Subject
from engine.model.canonical import short_id
from engine.model.observation import Observation
from engine.model.vocabulary import Trust
from engine.moments import OPEN_FUTURE, OPEN_PAST, slack_us
from engine.rulebook.book import SymptomDef

TRUST_ORDER: dict[str, int] = {"platform": 0, "node": 1, "workload": 2, "caller": 3}
_RECORDS = frozenset({"scheduler", "kubernetes"})
_POINTERS = ("peer_rank", "peer_node", "peer_addr", "host")


@dataclass(slots=True, eq=False)
class Episode:
    """One symptom on one subject. Times are microseconds with open ends as sentinels.

    `onset_*` is when it began (back-dated by timers), `seen_*` when lines of it were written.
    `reason` says why it was set aside; empty where it counts.
    """

    symptom: str
    meaning: SymptomDef
    subject: Subject
    reason: str = ""
    onset_earliest: int = OPEN_FUTURE
    onset_latest: int = OPEN_FUTURE
    seen_first: int = OPEN_FUTURE
    seen_last: int = OPEN_PAST
    clock: str = ""
    count: int = 0
    trust: Trust = "caller"
    observations: list[Observation] = field(default_factory=list)
    is_lasting: bool = False
    pointers: set[tuple[str, str]] = field(default_factory=set)
    _places: dict[str, int] | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the symptom's meaning."""
        return self.meaning.tags

    @property
    def is_candidate(self) -> bool:
        """Whether this kind of symptom may be a root cause at all."""
        return not self.reason and self.meaning.role in ("root", "lean_root", "ambiguous")

    @property
    def episode_id(self) -> str:
        """A stable id derived from what the episode is, never from where it stood."""
        s = self.subject
        return short_id(
            "ep", self.symptom, s.node, s.rank, s.pid, s.pod, s.gpu, s.nic, s.link, s.switch,
            s.filesystem, s.local_rank if s.rank is None else None, self.reason,
            int(s.is_gpu_explicit), self.meaning.role,
        )  # fmt: skip

    def add(
        self, observation: Observation, earliest: int, latest: int, first: int, last: int
    ) -> None:
        """Fold one observation in; commutative and associative."""
        self.observations.append(observation)
        self.count += observation.count
        self.onset_earliest = min(self.onset_earliest, earliest)
        self.onset_latest = min(self.onset_latest, latest)
        self.seen_first = min(self.seen_first, first)
        self.seen_last = max(self.seen_last, last)
        clock = observation.when.clock or observation.entity.node
        if len(self.observations) == 1:
            self.clock = clock
        elif clock != self.clock:
            self.clock = ""
        if TRUST_ORDER[observation.trust] < TRUST_ORDER[self.trust]:
            self.trust = observation.trust
        fields = observation.fields
        if fields:
            for name in _POINTERS:
                if value := fields.get(name):
                    self.pointers.add((name, value))

    def places(self) -> dict[str, int]:
        """Return the first byte offset of this episode in each stream."""
        if self._places is None:
            places: dict[str, int] = {}
            for observation in self.observations:
                origin = observation.first.origin
                if origin.uri not in places or origin.byte_offset < places[origin.uri]:
                    places[origin.uri] = origin.byte_offset
            self._places = places
        return self._places

    def has_tag(self, *names: str) -> bool:
        """Whether the symptom carries any of these tags."""
        return any(name in self.meaning.tags for name in names)

    @property
    def is_undated(self) -> bool:
        """Whether no line of it carries a stamp: only its place in the log says when it was."""
        return all(o.when.basis in ("none", "attempt", "neighbour") for o in self.observations)

    @property
    def is_bare_state(self) -> bool:
        """Whether this says no more than that, and in which state, the job ended.

        Any fault precedes it, so it ties none to the failure. A lost node or memory that ran
        out says more.
        """
        if self.symptom.startswith("sched_"):
            return not self.has_tag("node_loss", "host_oom")
        meaning = self.meaning
        return (
            meaning.entity == "job"
            and meaning.role in ("confirm", "secondary")
            and not self.meaning.tags
            and all(o.source in _RECORDS for o in self.observations)
        )


def surely_before(first: Episode, second: Episode) -> bool:
    """Whether `first` began before `second` beyond all uncertainty of clocks."""
    slack = slack_us(first.clock, second.clock)
    if first.onset_latest == OPEN_FUTURE or second.onset_earliest == OPEN_PAST:
        return stands_before(first, second)
    if first.onset_latest + slack < second.onset_earliest:
        return True
    if second.onset_latest + slack < first.onset_earliest:
        return False
    return stands_before(first, second)


def surely_earlier(first: Episode, second: Episode) -> bool:
    """Whether the clocks alone say that `first` began before `second`.

    Launchers write at once what a rank's buffer holds back, so a launcher's line above a
    traceback proves nothing.
    """
    slack = slack_us(first.clock, second.clock)
    if first.onset_latest == OPEN_FUTURE or second.onset_earliest == OPEN_PAST:
        return False
    return first.onset_latest + slack < second.onset_earliest


def may_precede(first: Episode, second: Episode) -> bool:
    """Whether `first` can have begun no later than `second`."""
    return not surely_before(second, first)


def stands_before(first: Episode, second: Episode) -> bool:
    """Happens-before by position: one stream, and one speaker in it.

    Lines of different ranks interleave by chance, so their order proves nothing; back-dated
    onsets are not where their line stands either.
    """
    if first.subject.rank != second.subject.rank:
        return False
    if first.seen_first != first.onset_earliest or second.seen_first != second.onset_earliest:
        return False
    return stands_above(first, second)


def stands_above(first: Episode, second: Episode) -> bool:
    """Whether `first` stands above `second` in every stream that holds both."""
    places = first.places()
    others = second.places()
    shared = places.keys() & others.keys()
    return bool(shared) and all(places[uri] < others[uri] for uri in shared)
