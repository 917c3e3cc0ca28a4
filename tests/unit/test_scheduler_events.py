import pytest

from connectors.schedulers import (
    InvalidEventError,
    UnfinishedEventError,
    UnknownEventError,
    parse_event,
)


def event(source, kind, **detail):
    return {
        "source": source, "detail-type": kind, "account": "111122223333", "region": "eu-west-1",
        "detail": detail,
    }  # fmt: skip


def ours(kind="Job Completed", **detail):
    workload = {"scheduler": "slurm", "job_id": "7", "state": "FAILED"}
    return event("rootrank.scheduler", kind, **{"version": 1, "workload": workload, **detail})


def test_our_own_event_keeps_workload_evidence_and_bundle():
    scoped = parse_event(
        ours(evidence=[{"path": "a.log", "source": "applog"}], bundle_uri="s3://b/bundles/7")
    )
    assert scoped.workload.job_id == "7"
    assert scoped.evidence[0].path == "a.log"
    assert scoped.bundle_uri == "s3://b/bundles/7"
    assert scoped.detection_signal is None


def test_a_request_for_a_running_job_says_what_was_noticed():
    scoped = parse_event(ours("Attribution Requested", detection_signal="hang"))
    assert scoped.detection_signal == "hang"


def test_the_schedulers_own_record_and_unknown_keys_are_not_kept():
    scoped = parse_event(ours(record={"script": "export TOKEN=hunter2"}, other="hunter2"))
    assert "hunter2" not in scoped.model_dump_json()


def test_another_version_is_refused_with_what_to_send():
    with pytest.raises(InvalidEventError, match="version 2 is not known; send version 1"):
        parse_event(ours(version=2))


def test_a_workload_without_a_job_is_refused_with_its_place():
    with pytest.raises(InvalidEventError, match=r"workload\.job_id"):
        parse_event(ours(workload={"scheduler": "slurm"}))


def test_an_evidence_path_that_leaves_the_bundle_is_refused():
    with pytest.raises(InvalidEventError, match="leaves the bundle"):
        parse_event(ours(evidence=[{"path": "../x", "source": "applog"}]))


def test_a_batch_jobs_last_attempt_is_the_attempt():
    attempts = [
        {"container": {"exitCode": 1}, "startedAt": 1700000000000, "stoppedAt": 1700000100000},
        {"container": {"exitCode": 137}, "startedAt": 1700000200000, "stoppedAt": 1700000300000},
    ]
    scoped = parse_event(
        event(
            "aws.batch", "Batch Job State Change", jobId="b-1", jobName="sft", status="FAILED",
            jobQueue="arn:aws:batch:eu-west-1:1:job-queue/gpu", attempts=attempts,
            container={"environment": [{"name": "TOKEN", "value": "hunter2"}], "command": ["x"]},
            parameters={"key": "hunter2"},
        )
    )  # fmt: skip
    workload = scoped.workload
    assert (workload.job_id, workload.attempt, workload.exit_code) == ("b-1", 1, "137")
    assert (workload.tenant, workload.queue) == ("111122223333", "gpu")
    assert (workload.end - workload.start).total_seconds() == 100
    assert "hunter2" not in scoped.model_dump_json()


def test_a_training_job_leaves_hyperparameters_and_roles_behind():
    scoped = parse_event(
        event(
            "aws.sagemaker", "SageMaker Training Job State Change", TrainingJobName="tj",
            TrainingJobStatus="Failed", SecondaryStatus="Failed", FailureReason="ExitCode 1",
            HyperParameters={"key": "hunter2"}, RoleArn="arn:aws:iam::1:role/hunter2",
            ResourceConfig={"InstanceCount": 2}, TrainingEndTime=1700000000000,
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
        )
    )  # fmt: skip
    assert scoped.workload.nodes == ("algo-1", "algo-2")
    assert scoped.workload.state == "Failed"
    assert scoped.workload.time_limit_s == 3600
    assert '"FailureReason": "ExitCode 1"' in scoped.record
    assert "hunter2" not in scoped.model_dump_json()


def test_a_run_out_time_is_told_by_the_secondary_status():
    scoped = parse_event(
        event(
            "aws.sagemaker", "SageMaker Training Job State Change", TrainingJobName="tj",
            TrainingJobStatus="Stopped", SecondaryStatus="MaxRuntimeExceeded",
        )
    )  # fmt: skip
    assert scoped.workload.state == "MaxRuntimeExceeded"


def test_a_change_that_ends_nothing_is_told_apart():
    with pytest.raises(UnfinishedEventError):
        parse_event(event("aws.batch", "Batch Job State Change", jobId="b", status="RUNNING"))


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(UnknownEventError, match=r"known are aws\.batch / Batch Job State Change"):
        parse_event(event("aws.ec2", "EC2 Instance State-change Notification"))


def test_no_event_at_all_is_invalid():
    with pytest.raises(InvalidEventError, match="no EventBridge event"):
        parse_event({"detail": {}})
