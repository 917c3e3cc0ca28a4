"""Events that end no job but may explain why one ended: reclaimed, expiring or unhealthy machines.

They are kept by hour and subject (an instance, a reservation, a cluster) until a plan of an attempt
that ran there and then asks for them. Fields not listed here are not kept.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

from engine.model.canonical import digest
from engine.model.contract import Document
from engine.model.event import BusEvent
from engine.model.moment import from_us, parse_rfc3339, rfc3339, to_us

PREFIX: Final = "context"
"""First key segment of all context events."""
BEFORE: Final = timedelta(minutes=90)
"""A Capacity Block's warning comes 40 minutes ahead, and instances end 30 to 60 minutes before it
does (EC2 user guide)."""
AFTER: Final = timedelta(minutes=10)
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + 2 * BEFORE
_LAST: Final = datetime.max.replace(tzinfo=UTC) - 2 * BEFORE
MAX_SUBJECTS: Final = 200
_MAX_TEXT: Final = 1024

SPOT: Final = "EC2 Spot Instance Interruption Warning"
REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
STATE_CHANGE: Final = "EC2 Instance State-change Notification"
BLOCK_EXPIRY: Final = "Capacity Block Reservation Expiration Warning"
RESERVATION_INTERRUPTION: Final = "EC2 Capacity Reservation Instance Interruption Warning"
HEALTH: Final = "AWS Health Event"
NODE_HEALTH: Final = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_STATE: Final = "SageMaker HyperPod Cluster State Change"
CLUSTER_EVENT: Final = "SageMaker HyperPod Cluster Event"
_GOING: Final = frozenset({"stopping", "shutting-down", "stopped", "terminated"})


class ContextEvent(Document):
    """One event; `subjects` are what it speaks of, `detail` its listed fields, nested as sent."""

    source: str
    detail_type: str
    account: str
    region: str
    at: str
    subjects: tuple[str, ...]
    detail: dict[str, Any]

    def text(self) -> str:
        """Return one line for the rules: time, then the event as EventBridge writes it."""
        body = ",".join(f"{_json(key)}:{_json(value)}" for key, value in self.detail.items())
        return f'{self.at} {{"detail-type":{_json(self.detail_type)},"detail":{{{body}}}}}'


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def parse_context(event: BusEvent) -> ContextEvent | None:
    """Return a context event; None where it is none, or speaks of nothing in particular."""
    read = _READERS.get((event.source, event.detail_type))
    if read is None or event.time is None:
        return None
    try:
        at = rfc3339(to_us(parse_rfc3339(event.time)))
    except ValueError:
        return None
    subjects, detail = read(event.detail)
    if not subjects:
        return None
    return ContextEvent(
        source=event.source,
        detail_type=event.detail_type,
        account=event.account or "default",
        region=event.region,
        at=at,
        subjects=tuple(sorted(set(subjects))[:MAX_SUBJECTS]),
        detail=detail,
    )


def is_context(source: str, detail_type: str) -> bool:
    """Whether an event of this kind is kept as context."""
    return (source, detail_type) in _READERS


def context_keys(event: ContextEvent) -> list[str]:
    """Return a key for each subject: `context/<account>/<hour>/<time>-<subject>-<digest>.json`."""
    name = digest(event.model_dump(mode="json")).removeprefix("sha256:")[:16]
    stem = f"{hour_prefix(event.account, parse_rfc3339(event.at))}{event.at}"
    return [f"{stem}={_quoted(subject)}={name}.json" for subject in event.subjects]


def hour_prefix(account: str, moment: datetime) -> str:
    """Return the prefix of one hour's context events."""
    return f"{PREFIX}/{_quoted(account)}/{moment.strftime('%Y-%m-%dT%H')}/"


def hours_of(start: datetime | None, end: datetime) -> list[datetime]:
    """Return the hours in which an event may explain the end of an attempt."""
    first, last = _span(start, end)
    hour = first.replace(minute=0, second=0, microsecond=0)
    hours = []
    while hour <= last:
        hours.append(hour)
        hour += timedelta(hours=1)
    return hours


def subject_of(key: str) -> str:
    """Return the subject in a key."""
    parts = key.rsplit("/", 1)[-1].split("=")
    return unquote(parts[1]) if len(parts) == 3 else ""


def _span(start: datetime | None, end: datetime) -> tuple[datetime, datetime]:
    """Return when an event that explains an end can have come; some ends are nobody's clock."""
    end = min(max(end, _FIRST), _LAST)
    first = end - BEFORE
    return (first if start is None else max(start, first)), end + AFTER


def join_context(
    events: Iterable[ContextEvent],
    *,
    instances: Mapping[str, str],
    cluster: str,
    start: datetime | None,
    end: datetime,
) -> dict[str, list[ContextEvent]]:
    """Return the events that concern an attempt, by node ("" for the whole attempt).

    `instances` maps the attempt's nodes to instance ids. An expiring reservation is joined only
    where one of these instances was seen to go within its last hour: a reservation that others
    used explains nothing.
    """
    nodes = {instance: node for node, instance in instances.items()}
    first, last = _span(start, end)
    inside = [each for each in events if first <= parse_rfc3339(each.at) <= last]
    joined: dict[str, list[ContextEvent]] = {}
    gone: list[datetime] = []
    for each in inside:
        for subject in each.subjects:
            if subject not in nodes:
                continue
            joined.setdefault(nodes[subject], []).append(each)
            if each.detail_type == STATE_CHANGE and each.detail.get("state") in _GOING:
                gone.append(parse_rfc3339(each.at))
    for each in inside:
        is_block = each.detail_type == BLOCK_EXPIRY and _ended_by_block(each, gone)
        is_cluster = each.detail_type in (CLUSTER_STATE, CLUSTER_EVENT) and cluster in each.subjects
        if is_block or is_cluster:
            joined.setdefault("", []).append(each)
    return {
        node: sorted(found, key=lambda each: (each.at, each.detail_type, each.text()))
        for node, found in sorted(joined.items())
    }


def _ended_by_block(event: ContextEvent, gone: Iterable[datetime]) -> bool:
    try:
        end = parse_rfc3339(str(event.detail.get("end-date")))
    except ValueError:
        return False
    return any(end - timedelta(minutes=60) <= moment <= end for moment in gone)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _kept(detail: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the listed plain values, long texts cut."""
    found: dict[str, Any] = {}
    for name in names:
        value = detail.get(name)
        if isinstance(value, str) and value:
            found[name] = value[:_MAX_TEXT]
        elif isinstance(value, int):
            found[name] = value
    return found


_Read = Callable[[Mapping[str, Any]], tuple[list[str], dict[str, Any]]]


def _instance(*names: str) -> _Read:
    def read(detail: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        return _texts(detail.get("instance-id")), _kept(detail, ("instance-id", *names))

    return read


def _block(detail: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    kept = _kept(detail, ("capacity-reservation-id", "end-date"))
    return _texts(kept.get("capacity-reservation-id")), kept


def _health(detail: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    kept = _kept(
        detail,
        ("service", "eventTypeCode", "eventTypeCategory", "eventScopeCode", "statusCode",
         "startTime", "endTime", "eventRegion"),
    )  # fmt: skip
    entities = detail.get("affectedEntities")
    named = [
        str(each["entityValue"])
        for each in (entities if isinstance(entities, list) else ())
        if isinstance(each, Mapping) and isinstance(each.get("entityValue"), str)
    ]
    # Entities come as instance ids or as ARNs that end with one.
    return [name.rsplit("/", 1)[-1][:256] for name in named], kept


def _node_health(detail: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    summary = detail.get("HealthSummary")
    kept = _kept(detail, ("ClusterName", "InstanceId")) | _kept(
        summary if isinstance(summary, Mapping) else {},
        ("HealthStatus", "HealthStatusReason", "RepairAction", "Recommendation"),
    )
    return _texts(kept.get("InstanceId")), kept


def _cluster_state(detail: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    kept = _kept(detail, ("ClusterName", "ClusterStatus", "FailureMessage"))
    return _texts(kept.get("ClusterName")), kept


def _cluster_event(detail: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Every field may be missing: the reference and what is sent differ."""
    given = detail.get("EventDetails")
    outer = given if isinstance(given, Mapping) else detail
    names = ("ClusterName", "InstanceGroupName", "InstanceId", "ResourceType", "EventLevel",
             "Description")  # fmt: skip
    kept = _kept(outer, names)
    inner: Any = outer.get("EventDetails")
    for step in ("EventMetadata", "Instance"):
        inner = inner.get(step) if isinstance(inner, Mapping) else None
    if isinstance(inner, Mapping):
        kept |= _kept(inner, ("FailureMessage", "NodeLogicalId", "LcsExecutionState"))
    moment = outer.get("EventTime")
    if isinstance(moment, int) and 0 < moment < 4_102_444_800_000:
        kept["EventTime"] = rfc3339(to_us(from_us(moment * 1000)))
    return _texts(kept.get("InstanceId") or kept.get("ClusterName")), kept


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) and value else []


_READERS: Final[dict[tuple[str, str], _Read]] = {
    ("aws.ec2", SPOT): _instance("instance-action"),
    ("aws.ec2", REBALANCE): _instance(),
    ("aws.ec2", STATE_CHANGE): _instance("state"),
    ("aws.ec2", BLOCK_EXPIRY): _block,
    ("aws.ec2", RESERVATION_INTERRUPTION): _instance(
        "instance-action", "instance-termination-time", "instance-lifecycle"
    ),
    ("aws.health", HEALTH): _health,
    ("aws.sagemaker", NODE_HEALTH): _node_health,
    ("aws.sagemaker", CLUSTER_STATE): _cluster_state,
    ("aws.sagemaker", CLUSTER_EVENT): _cluster_event,
}
FORMS: Final = tuple(sorted(_READERS))
