"""A machine that AWS took back is no node failure: context events reach the verdict."""

from datetime import UTC, datetime, timedelta
from typing import Any

from engine.model.moment import parse_rfc3339, to_us
from engine.model.verdict import Verdict

INSTANCE = "i-0123456789abcdef0"


def aws(kind: str, detail: dict[str, Any], source: str = "aws.ec2") -> dict[str, Any]:
    return {"source": source, "detail-type": kind, "detail": detail}


def lose(embedded: Any, start: str, end: str, instance: str = INSTANCE) -> Any:
    workload = embedded.workload() | {"nodes": ["gpu-1", "gpu-2"], "start": start, "end": end}
    embedded.key = f"{embedded.key.rsplit('/', 1)[0]}/" + start_part(start)
    embedded.send(workload, record={"instance_ids": {"gpu-1": instance}})
    return Verdict.model_validate_json(embedded.verdict(embedded.key))


def start_part(start: str) -> str:
    return f"t{to_us(parse_rfc3339(start)) // 1_000_000}"


def now_and_before() -> tuple[str, str]:
    now = datetime.now(UTC).replace(microsecond=0)
    return (now - timedelta(hours=2)).isoformat(), (now + timedelta(seconds=20)).isoformat()


def put(embedded: Any, *events: dict[str, Any]) -> None:
    for event in events:
        embedded.stack.put_event(event)
    embedded.stack.settle(60)


def test_a_reclaimed_machine_explains_a_lost_node_and_accuses_nobody(embedded: Any) -> None:
    kind = "EC2 Spot Instance Interruption Warning"
    put(embedded, aws(kind, {"instance-id": INSTANCE, "instance-action": "terminate"}))
    verdict = lose(embedded, *now_and_before())
    assert verdict.failure_class == "spot_interruption"
    assert verdict.domain == "scheduler"
    assert [each.role for each in verdict.affected_nodes if each.role == "culprit"] == []


def test_a_warning_for_another_machine_explains_nothing(embedded: Any) -> None:
    kind = "EC2 Spot Instance Interruption Warning"
    put(embedded, aws(kind, {"instance-id": "i-0ffffffffffffffff", "instance-action": "stop"}))
    verdict = lose(embedded, *now_and_before(), instance="i-0aaaaaaaaaaaaaaaa")
    assert verdict.failure_class != "spot_interruption"


def block_ending(minutes: int) -> dict[str, Any]:
    end = datetime.now(UTC) + timedelta(minutes=minutes)
    detail = {
        "capacity-reservation-id": "cr-0123456789abcdef0",
        "end-date": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return aws("Capacity Block Reservation Expiration Warning", detail)


def going(instance: str) -> dict[str, Any]:
    detail = {"instance-id": instance, "state": "shutting-down"}
    return aws("EC2 Instance State-change Notification", detail)


def test_a_job_that_an_expiring_capacity_block_ended_is_no_node_failure(embedded: Any) -> None:
    put(embedded, block_ending(30), going("i-0b10c0b10c0b10c01"))
    verdict = lose(embedded, *now_and_before(), instance="i-0b10c0b10c0b10c01")
    assert verdict.workload.state == "NODE_FAIL"
    assert (verdict.failure_class, verdict.domain) == ("capacity_block_expired", "scheduler")
    assert [each.role for each in verdict.affected_nodes if each.role == "culprit"] == []
    assert "drain_node" not in {each.action for each in verdict.actions}


def test_a_block_that_others_used_explains_no_lost_node(embedded: Any) -> None:
    put(embedded, block_ending(30), going("i-0ffffffffffffffff"))
    verdict = lose(embedded, *now_and_before(), instance="i-0b10c0b10c0b10c02")
    assert verdict.failure_class != "capacity_block_expired"
