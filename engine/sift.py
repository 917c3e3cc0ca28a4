"""What counts and what is set aside, with its reason; then folding into episodes.

Nothing is dropped: a set-aside observation becomes an episode that carries its reason.
"""

from dataclasses import dataclass, field

from engine.case import Case
from engine.entities import Directory, Subject
from engine.episodes import Episode
from engine.exceptions import GENERIC, Exceptions
from engine.meanings import Meanings
from engine.model.observation import Observation
from engine.model.vocabulary import HARDWARE_DOMAINS
from engine.moments import MINUTE_US, OPEN_PAST, or_past
from engine.normalise import Bounds, Signatures, onset_interval, seen_interval
from engine.rulebook.book import SymptomDef

# A driver load or boot is followed by its own probe messages for a while.
BOOT_SLACK_US = MINUTE_US
_CENTRAL_SOURCES = frozenset({"scheduler", "kubernetes"})
_NODE_POINTERS = ("host", "failed_node", "peer_node")
_ROUTE_FIELDS = (*_NODE_POINTERS, "job")
Folded = dict[tuple[str, int, str, str], Episode]
_BOOT_WORDS = ("boot", "driver_load", "gpu_reset", "driver_loaded")


@dataclass(slots=True)
class _Route:
    """What kind, source and entity decide before any single time is looked at."""

    meaning: SymptomDef
    reason: str
    has_timer: bool
    subject: Subject


@dataclass(slots=True)
class Sifted:
    """All episodes, and sentences about observations that could not be used."""

    episodes: list[Episode] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)


class Sifter:
    """Folds observations into episodes, each counting or set aside."""

    def __init__(
        self, case: Case, meanings: Meanings, signatures: Signatures, directory: Directory,
        bounds: Bounds,
    ) -> None:  # fmt: skip
        self._case = case
        self._meanings = meanings
        self._signatures = signatures
        self._directory = directory
        self._bounds = bounds
        self._routes: dict[tuple[object, ...], _Route] = {}
        self._subject_reasons: dict[tuple[int, str], str] = {}
        self._boots: dict[str, int] = {}
        self._exceptions = Exceptions(case.observations, meanings)
        self._own_pods = _own_pods(case)
        self._strangers = {
            (directory.names.canonical(item.entity.node), item.entity.pid)
            for item in case.observations
            if item.entity.pid is not None and self._is_other_job(item.fields.get("job", ""))
        }

    def sift(self) -> Sifted:
        """Return the episodes in a stable order."""
        result = Sifted()
        self._find_boots()
        folded: Folded = {}
        for observation in self._case.observations:
            try:
                self._fold(observation, folded)
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                result.losses.append(
                    f"an observation of {str(observation.symptom)[:80]!r} could not be used: "
                    f"{type(error).__name__}"
                )
        result.losses.sort()
        result.episodes = sorted(folded.values(), key=_order)
        return result

    def _fold(self, observation: Observation, folded: Folded) -> None:
        route = self._route(observation)
        meaning, reason, subject = route.meaning, route.reason, route.subject
        fields = observation.fields
        seen = seen_interval(observation, self._bounds)
        onset = seen
        if route.has_timer:
            timer = self._signatures.timer(observation.rule, observation.source, fields)
            onset = onset_interval(seen, timer, fields)
        if not reason and meaning.symptom == GENERIC:
            reason = "claimed" if self._exceptions.is_claimed(observation) else ""
            meaning = self._exceptions.reading(observation, meaning)
        lasting = False
        if not reason and meaning.role != "marker":
            reason, lasting = self._time_reason(seen, subject, meaning)
        spot = (meaning.symptom, subject.number, reason, meaning.role)
        episode = folded.get(spot)
        if episode is None:
            episode = folded[spot] = Episode(meaning.symptom, meaning, subject, reason)
            episode.is_lasting = lasting
        last = observation.last.when.latest_us
        episode.is_lasting = episode.is_lasting and lasting
        episode.add(observation, onset[0], onset[1], seen[0], seen[1] if last is None else last)

    def _route(self, observation: Observation) -> _Route:
        """Decide once for all observations of one kind, source and entity."""
        fields = observation.fields
        pointed = tuple(fields[name] for name in _ROUTE_FIELDS if name in fields) if fields else ()
        key = (
            observation.symptom, observation.rule, observation.source, observation.trust,
            "unproven" in observation.flags, observation.entity, pointed,
        )  # fmt: skip
        route = self._routes.get(key)
        if route is None:
            meaning, reason = self._judge_kind(observation)
            subject = self._directory.subject(
                observation.entity, self._trusted_node(observation, meaning)
            )
            reason = reason or self._subject_reason(subject, observation, meaning)
            timer = self._signatures.timer(observation.rule, observation.source, fields)
            route = self._routes[key] = _Route(meaning, reason, timer is not None, subject)
        return route

    def _judge_kind(self, observation: Observation) -> tuple[SymptomDef, str]:
        meaning = self._meanings.get(observation.symptom)
        if meaning is None:
            # Someone's newer symptom: kept visible, proves nothing.
            return _unknown_meaning(observation), "undefined_symptom"
        if meaning.status != "stable":
            return meaning, f"{meaning.status}_rule"
        if meaning.role == "noise":
            return meaning, "known_noise"
        if "unproven" in observation.flags or not self._signatures.proves(
            observation.rule, observation.source, observation.trust
        ):
            return meaning, "untrusted_source"
        return meaning, ""

    def _trusted_node(self, observation: Observation, meaning: SymptomDef) -> str:
        """A node named in text becomes the subject only where an authority names it.

        The scheduler's own records may name any node of the job. Everything else speaks for
        the node that its stream is labelled with.
        """
        if not observation.fields:
            return ""
        names = self._directory.names
        if observation.trust == "platform" or observation.source in _CENTRAL_SOURCES:
            wanted = True
        elif meaning.entity == "node" and "node_loss" in meaning.tags:
            # Node loss is reported from elsewhere by nature: slurmctld, srun, a launcher.
            wanted = True
        else:
            # A launcher's line about a rank on another node of an unlabelled merged log.
            wanted = not observation.entity.node
        if not wanted:
            return ""
        outside = ""
        for pointer in _NODE_POINTERS:
            if value := observation.fields.get(pointer):
                node = names.canonical(value)
                if names.nodes and names.is_member(node):
                    return node
                outside = outside or node
        # A record about another node of the cluster must not fall on the job's own.
        about_machine = meaning.entity not in ("job", "queue")
        central = observation.source in _CENTRAL_SOURCES
        if about_machine and (central or names.is_neighbour(outside)):
            return outside
        return ""

    def _subject_reason(
        self, subject: Subject, observation: Observation, meaning: SymptomDef
    ) -> str:
        if self._is_other_job(observation.fields.get("job", "")) or self._is_stranger(observation):
            return "other_job"
        key = (subject.number, observation.source)
        reason = self._subject_reasons.get(key)
        if reason is None:
            reason = ""
            if subject.node and not self._directory.names.is_member(subject.node):
                reason = "other_node"
            elif subject.is_gpu_explicit and self._directory.holds_gpu(subject.gpu) is False:
                reason = "other_gpu"
            self._subject_reasons[key] = reason
        if reason == "other_node":
            labelled = self._directory.names.canonical(observation.entity.node)
            if meaning.entity in ("job", "queue"):
                return ""
            if observation.source in _CENTRAL_SOURCES and labelled == subject.node:
                # Printed on a head node, not about it.
                return ""
        if not reason and subject.pod and self._is_foreign_pod(subject.pod):
            return "other_job"
        return reason

    def _is_stranger(self, observation: Observation) -> bool:
        """Whether another line of the node's log gives this process to another job."""
        entity = observation.entity
        if not self._strangers or observation.trust == "workload":
            return False
        return (self._directory.names.canonical(entity.node), entity.pid) in self._strangers

    def _is_foreign_pod(self, pod: str) -> bool:
        """Whether the job's pods are known by its name and this is none of them."""
        return bool(self._own_pods) and pod not in self._own_pods

    def _is_other_job(self, job: str) -> bool:
        """Whether a record names another job; array tasks have raw ids that we do not know."""
        own = self._case.workload.job_id
        return job.isdigit() and own.isdigit() and job != own

    def _time_reason(
        self, seen: tuple[int, int], subject: Subject, meaning: SymptomDef
    ) -> tuple[str, bool]:
        bounds = self._bounds
        if seen[0] > bounds.latest:
            return "after_window", False
        latest = seen[1]
        if latest < bounds.start:
            boot = self._boots.get(subject.node, OPEN_PAST)
            if boot != OPEN_PAST and latest < boot - BOOT_SLACK_US:
                return "before_boot", False
            if latest < bounds.earliest:
                # A device that was lost before the start is still lost; a burst of link errors
                # two hours earlier is history.
                lasting = (
                    meaning.role in ("root", "lean_root")
                    and meaning.tier <= 1
                    and meaning.domain in HARDWARE_DOMAINS
                )
                return ("", True) if lasting else ("before_window", False)
        return "", False

    def _find_boots(self) -> None:
        """Remember each node's last boot, driver load or reset before the attempt began."""
        start = self._bounds.start
        if start == OPEN_PAST:
            return
        for observation in self._case.observations:
            meaning = self._meanings.get(observation.symptom)
            if meaning is None or meaning.role != "marker":
                continue
            if not any(word in observation.symptom for word in _BOOT_WORDS):
                continue
            if observation.trust == "workload":
                continue
            at = or_past(observation.last.when.earliest_us)
            node = self._directory.subject(observation.entity).node
            if at <= start and at > self._boots.get(node, OPEN_PAST):
                self._boots[node] = at


def _own_pods(case: Case) -> frozenset[str]:
    """Return the pods that carry the job's id or name as their prefix."""
    prefixes = tuple(name for name in (case.workload.job_id, case.workload.name) if name)
    pods = {observation.entity.pod for observation in case.observations} - {""}
    return frozenset(pod for pod in pods if pod.startswith(prefixes))


def _unknown_meaning(observation: Observation) -> SymptomDef:
    return SymptomDef(
        symptom=observation.symptom, rule=observation.rule, status="stable",
        title=observation.symptom.replace("_", " "), domain="unknown", role="noise", tier=7,
        manifestation="unknown", entity="job", proof="inferred", alone="insufficient", rivals=(),
        terminal=None, accuses=False, tags=(), about="", explanation="", actions=(),
    )  # fmt: skip


def _order(episode: Episode) -> tuple[object, ...]:
    s = episode.subject
    return (
        episode.symptom, s.node, -1 if s.rank is None else s.rank, s.gpu, s.nic, s.link, s.switch,
        s.filesystem, s.pod, -1 if s.pid is None else s.pid,
        -1 if s.local_rank is None else s.local_rank, episode.reason, s.is_gpu_explicit,
        episode.meaning.role,
    )  # fmt: skip
