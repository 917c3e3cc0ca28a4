"""The verdicts that an attribution is given as evidence: a snapshot, taken when it is planned.

Earlier attempts of the job, what was said in the last day of nodes that the attempt ran on, and
what failed at the same time below the same switch, on the same file system or with the same image.
The plan keeps the snapshot, so that the same plan always means the same verdict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from connectors.protocol import ConnectorError
from engine.history import CONCURRENT, EARLIER, IMAGE, SAME_NODE, SWITCH
from engine.model.moment import parse_rfc3339, rfc3339, to_us
from engine.model.plan import Plan
from engine.model.verdict import PastVerdict
from engine.model.workload import Workload
from functions.adapters.keys import plan_key
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import ResultsQuery, Span

logger = Logger(service="rootrank", child=True)

MAX_EARLIER: Final = 5
MAX_OTHERS: Final = 20
MAX_READ: Final = 500
"""Verdicts of the cluster that are looked at; newest first, so a busy day costs no more."""
MAX_SHARED: Final = 64
MAX_SWITCHES: Final = 16
LOOK_BACK: Final = timedelta(hours=24)
AROUND: Final = timedelta(minutes=10)
"""So far apart may attempts end that something broken under both of them ended."""
_NAMES: Final = (
    "attempt_key", "attribution_id", "culprits", "domain", "end", "failure_class", "generation",
    "image", "job_id", "named", "start", "suspects",
)  # fmt: skip
"""What is read of each: an item is kilobytes, and hundreds may be looked at."""
_Item = dict[str, Any]
Switches = Callable[[Workload, Sequence[str]], Mapping[str, Sequence[str]]]
"""Which switches are above some of the nodes of an attempt's cluster, with the nodes below each."""


def no_switches(workload: Workload, nodes: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return none: the site file tells of no switches."""
    return {}


@dataclass(slots=True, frozen=True)
class Past:
    """Earlier verdicts over their stores."""

    query: ResultsQuery
    store: ObjectStore
    switches: Switches = no_switches

    def of(self, attempt_key: str, workload: Workload) -> tuple[PastVerdict, ...]:
        """Return the snapshot for an attempt; empty where the table cannot be asked now.

        History never changes a cause, so a plan does not fail for want of it.
        """
        try:
            earlier = list(islice(self._earlier(attempt_key, workload), MAX_EARLIER))
            taken = {attempt_key, *(each.attribution_id for each in earlier)}
            others = list(islice(self._others(attempt_key, workload, taken), MAX_OTHERS))
            taken |= {each.attribution_id for each in others}
            around = self._around(attempt_key, workload)
            others = [
                around.get(each.attribution_id, each) if each.relation == CONCURRENT else each
                for each in others
            ]
            more = [each for name, each in around.items() if name not in taken]
        except ConnectorError as error:
            logger.warning("no history was given", extra={"reason": str(error)[:500]})
            return ()
        return (*earlier, *others, *more[:MAX_OTHERS])

    def since(
        self,
        attempt_key: str,
        workload: Workload,
        *,
        known: Sequence[Mapping[str, Any]],
        cause: tuple[str, str],
    ) -> tuple[PastVerdict, ...]:
        """Return what failed alike at the same time and is not in the snapshot `known` yet.

        `cause` is the domain and the failure class of the attempt's own verdict so far.
        """
        held = {(each["job_id"], each["attempt"]) for each in known}
        found = self.of(attempt_key, workload)
        return tuple(
            each
            for each in found
            if each.relation == CONCURRENT
            and (each.domain, each.failure_class) == cause
            and (each.job_id, each.attempt) not in held
        )

    def _earlier(self, attempt_key: str, workload: Workload) -> Iterator[PastVerdict]:
        job = attempt_key.rsplit("/", 1)[0] + "/"
        for item in islice(self.query.by_job(workload.job_id, names=_NAMES), MAX_READ):
            key = item.get("attempt_key", "")
            is_judged = "attribution_id" in item
            if not is_judged or key == attempt_key or not key.startswith(job):
                continue
            if not _ended_before(item, workload.start or workload.end):
                continue
            nodes = self._nodes_of(item)
            if nodes is None:
                continue
            shared = sorted(set(workload.nodes) & nodes)[:MAX_SHARED]
            yield _entry(item, EARLIER, tuple(shared))

    def _others(
        self, attempt_key: str, workload: Workload, taken: set[str]
    ) -> Iterator[PastVerdict]:
        end = workload.end or workload.start
        if end is None or not workload.nodes:
            return
        own = set(workload.nodes)
        cluster = f"{workload.tenant}/{workload.cluster}"
        days = sorted({_moved(end, by).date() for by in (-LOOK_BACK, timedelta(), LOOK_BACK)})
        for day in reversed(days):
            found = self.query.by_day(cluster, day.isoformat(), names=_NAMES)
            for item in islice(found, MAX_READ):
                if item["attempt_key"] == attempt_key or item["attribution_id"] in taken:
                    continue
                shared = own & {*item.get("culprits", ()), *item.get("suspects", ())}
                relation = _relation(item, workload)
                if shared and relation is not None:
                    yield _entry(item, relation, tuple(sorted(shared)[:MAX_SHARED]))

    def _around(self, attempt_key: str, workload: Workload) -> dict[str, PastVerdict]:
        """Return concurrent failures by attribution id: those that may have more in common.

        The engine weighs them: here nobody knows yet what this attempt's own cause names.
        """
        if workload.end is None:
            return {}
        first, last = _moved(workload.end, -AROUND), _moved(workload.end, AROUND)
        behind = _moved(last, timedelta(seconds=1))
        span = Span(rfc3339(to_us(first)), rfc3339(to_us(behind)))
        cluster = f"{workload.tenant}/{workload.cluster}"
        above = self.switches(workload, workload.nodes)
        found: dict[str, PastVerdict] = {}
        for day in sorted({first.date(), last.date()}, reverse=True):
            items = self.query.by_day(cluster, day.isoformat(), span, names=_NAMES)
            for item in islice(items, MAX_READ):
                if item["attempt_key"] == attempt_key or item["domain"] in ("none", "unknown"):
                    continue
                entry = self._met(item, workload, above)
                if entry is not None and len(found) < MAX_OTHERS:
                    found[entry.attribution_id] = entry
        return found

    def _met(
        self, item: _Item, workload: Workload, above: Mapping[str, Sequence[str]]
    ) -> PastVerdict | None:
        """Return a concurrent failure with what it shares or names; None where that is nothing."""
        accused = sorted({*item.get("culprits", ()), *item.get("suspects", ())})
        switches = sorted(set(above) & set(self.switches(workload, accused)))[:MAX_SWITCHES]
        shared = sorted(set(workload.nodes).intersection(accused))[:MAX_SHARED]
        shared += [SWITCH + name for name in switches]
        if workload.image is not None and workload.image == item.get("image"):
            shared.append(IMAGE + workload.image)
        named = tuple(item.get("named", ()))
        if not shared and not named:
            return None
        below = {SWITCH + name: tuple(above[name][:MAX_SHARED]) for name in switches}
        entry = _entry(item, CONCURRENT, tuple(shared))
        return entry.model_copy(update={"named": named, "below": below})

    def _nodes_of(self, item: _Item) -> set[str] | None:
        """Return the nodes that an earlier attempt ran on, from its plan; None where unknown."""
        key = plan_key(item["attempt_key"], item.get("generation", 1), 1)
        try:
            return set(Plan.model_validate_json(self.store.get(key)[0]).workload.nodes)
        except (ConnectorError, ValidationError):
            return None


def _entry(item: _Item, relation: str, shared: tuple[str, ...]) -> PastVerdict:
    part = item["attempt_key"].rsplit("/", 1)[1]
    return PastVerdict(
        attribution_id=item["attribution_id"],
        relation=relation,
        job_id=item["job_id"],
        attempt=int(part[1:]) if part[:1] == "r" and part[1:].isdigit() else None,
        end=item.get("end"),
        domain=item["domain"],
        failure_class=item["failure_class"],
        shared=shared,
    )


def _relation(item: _Item, workload: Workload) -> str | None:
    """Return how another attempt lies in time: before, at the same time, or of no interest."""
    end, start = _moment(item.get("end")), _moment(item.get("start"))
    own_end = workload.end or workload.start
    if end is None or own_end is None:
        return None
    if workload.start is not None and end <= workload.start:
        return SAME_NODE if workload.start - end <= LOOK_BACK else None
    return CONCURRENT if start is None or start <= own_end else None


def _ended_before(item: _Item, moment: datetime | None) -> bool:
    end = _moment(item.get("end"))
    return end is None or moment is None or end <= moment


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Return a moment moved in time, or itself at the first and last that there is."""
    try:
        return moment + by
    except OverflowError:
        return moment


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_rfc3339(text)
