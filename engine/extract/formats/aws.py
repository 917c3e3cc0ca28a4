"""AWS Batch and SageMaker job descriptions and events (JSON)."""

from collections.abc import Iterator, Sequence
from typing import Any

from engine.extract.formats.jsontext import JsonValue, as_dict, as_items
from engine.extract.formats.sheet import Sheet
from engine.model.observation import When


def read_aws_json(sheet: Sheet, documents: Sequence[JsonValue]) -> None:
    """Consume DescribeJobs, DescribeTrainingJob and EventBridge documents."""
    for document in documents:
        batch, training = list(_batch_jobs(document.value)), _training(document.value)
        if not batch and training is None:
            continue
        sheet.consume(*document.indexes)
        for job in batch:
            _add_batch(sheet, document, job)
        if training is not None:
            _add_training(sheet, document, training)


def _batch_jobs(value: Any) -> Iterator[dict[str, Any]]:
    record = as_dict(value)
    if "detail" in record:
        record = as_dict(record["detail"])
    candidates = record.get("jobs") or record.get("jobSummaryList") or [record]
    for each in as_items(candidates):
        job = as_dict(each)
        if "jobId" in job and "status" in job:
            yield job


def _training(value: Any) -> dict[str, Any] | None:
    record = as_dict(value)
    if "detail" in record:
        record = as_dict(record["detail"])
    return record if "TrainingJobName" in record and "TrainingJobStatus" in record else None


def _add_batch(sheet: Sheet, document: JsonValue, job: dict[str, Any]) -> None:
    job_id = str(job["jobId"])
    wanted = {sheet.workload.job_id, sheet.workload.name or ""}
    is_other = sheet.workload.scheduler == "batch" and not (
        job_id in wanted
        or job_id.split("#", maxsplit=1)[0] in wanted
        or str(job.get("jobName")) in wanted
    )
    attempts = [as_dict(each) for each in as_items(job.get("attempts"))]
    for number, attempt in enumerate(attempts):
        container = as_dict(attempt.get("container"))
        lines, excerpt = document.span("stoppedAt", attempt.get("stoppedAt"))
        wants = sheet.workload.attempt
        sheet.add(
            "batch.job",
            {
                "id": job_id,
                "status": job.get("status") if number + 1 == len(attempts) else "FAILED",
                "status_reason": attempt.get("statusReason"),
                "attempt": number,
                "exit": container.get("exitCode"),
                "reason": container.get("reason"),
            },
            lines=lines,
            when=sheet.at_epoch(attempt.get("stoppedAt"), scale=1_000),
            excerpt=excerpt,
            other=is_other or (wants is not None and wants != number and wants < len(attempts)),
        )
    lines, excerpt = document.span("status", job.get("status"))
    container = as_dict(job.get("container"))
    sheet.add(
        "batch.job",
        {
            "id": job_id,
            "status": job.get("status"),
            "status_reason": job.get("statusReason"),
            "exit": container.get("exitCode"),
            "reason": container.get("reason"),
        },
        lines=lines,
        when=sheet.at_epoch(job.get("stoppedAt"), scale=1_000),
        excerpt=excerpt,
        other=is_other,
    )


def _add_training(sheet: Sheet, document: JsonValue, job: dict[str, Any]) -> None:
    name = str(job["TrainingJobName"])
    has_failure = bool(job.get("FailureReason"))
    key = "FailureReason" if has_failure else "TrainingJobStatus"
    lines, excerpt = document.span(key, job.get(key))
    wanted = (sheet.workload.job_id, sheet.workload.name)
    sheet.add(
        "sagemaker.job",
        {
            "name": name,
            "status": job.get("TrainingJobStatus"),
            "secondary": job.get("SecondaryStatus"),
            "failure_reason": job.get("FailureReason"),
        },
        lines=lines,
        when=_moment(sheet, job.get("TrainingEndTime") or job.get("LastModifiedTime")),
        excerpt=excerpt,
        other=sheet.workload.scheduler == "sagemaker" and name not in wanted,
    )


def _moment(sheet: Sheet, value: Any) -> When:
    """Events give epoch milliseconds, the CLI RFC 3339 text or epoch seconds."""
    if isinstance(value, int | float):
        return sheet.at_epoch(int(value), scale=1_000 if value > 10**11 else 1_000_000)
    return sheet.at(str(value or ""))
