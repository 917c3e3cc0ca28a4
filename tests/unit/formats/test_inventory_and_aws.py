import json

from tests.unit.reading import facts, read


def node(text):
    return read("inventory", text, label={"nodes": ("node-001",), "trust": "node"})


def test_listed_gpus_have_index_and_uuid():
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    assert facts(node(f"GPU 3: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n")) == [
        f'inventory.gpu node=node-001 index=3 uuid={uuid} name="NVIDIA H100 80GB HBM3" state=listed'
    ]


def test_a_table_row_with_an_error_says_so():
    row = "|   2  NVIDIA A100-SXM4-80GB          On  | 00000000:47:00.0 Off |                 ERR! |\n"  # noqa: E501
    (found,) = facts(node(row))
    assert "index=2 pci=00000000:47:00.0" in found
    assert "state=ERR!" in found


def test_a_query_takes_only_what_reads_as_a_fault():
    text = (
        "GPU 00000000:07:00.0\n"
        "    Product Name                          : NVIDIA H100\n"
        "    GPU Reset Status\n"
        "        Reset Required                    : Yes\n"
        "        Drain and Reset Recommended       : No\n"
    )
    assert facts(node(text)) == [
        "inventory.gpu node=node-001 pci=00000000:07:00.0 state=listed",
        'inventory.gpu node=node-001 pci=00000000:07:00.0 state=unhealthy message="Reset Required: Yes"',  # noqa: E501
    ]


def test_ports_and_downgraded_links_are_read():
    text = (
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n"
        "80:00.0 3D controller: NVIDIA Corporation\n"
        "\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)\n"
    )
    assert facts(node(text)) == [
        "inventory.link node=node-001 device=mlx5_0 port=1 state=Down",
        "inventory.link node=node-001 device=mlx5_0 port=1 state=Disabled",
        "inventory.link node=node-001 device=0000:80:00.0 state=downgraded "
        'message="Speed 8GT/s (downgraded), Width x8 (downgraded)"',
    ]


def test_full_disks_are_read_and_other_lines_stay():
    text = (
        "Filesystem      Size  Used Avail Use% Mounted on\n"
        "/dev/nvme0n1p2  100G  100G     0 100% /scratch\n"
        "something else\n"
    )
    structured = node(text)
    assert facts(structured) == [
        "inventory.disk node=node-001 filesystem=/dev/nvme0n1p2 mount=/scratch used_percent=100"
    ]
    assert [line for _, _, line in structured.unconsumed] == [b"something else"]


def test_a_batch_description_gives_each_attempt_and_the_job():
    job = {
        "jobId": "b-1",
        "jobName": "sft",
        "status": "FAILED",
        "statusReason": "Essential container in task exited",
        "attempts": [
            {
                "container": {
                    "exitCode": 137,
                    "reason": "OutOfMemoryError: Container killed due to memory usage",
                },
                "stoppedAt": 1700000000000,
            }
        ],
        "container": {"exitCode": 137, "environment": [{"name": "TOKEN", "value": "hunter2"}]},
    }
    text = json.dumps({"jobs": [job]}, indent=1)
    structured = read("scheduler", text, scheduler="batch", job_id="b-1")
    assert facts(structured) == [
        "batch.job id=b-1 status=FAILED attempt=0 exit=137 "
        'reason="OutOfMemoryError: Container killed due to memory usage"',
        'batch.job id=b-1 status=FAILED status_reason="Essential container in task exited" exit=137',  # noqa: E501
    ]
    assert structured.facts[0].when.latest_us == 1_700_000_000_000_000


def test_a_training_job_gives_its_failure_reason_and_nothing_private():
    job = {
        "TrainingJobName": "tj",
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "FailureReason": "AlgorithmError: ExitCode 1",
        "RoleArn": "arn:aws:iam::1:role/x",
        "HyperParameters": {"key": "hunter2"},
        "TrainingEndTime": 1700000000000,
    }
    structured = read("scheduler", json.dumps(job, indent=1), scheduler="sagemaker", job_id="tj")
    assert facts(structured) == [
        'sagemaker.job name=tj status=Failed secondary=Failed failure_reason="AlgorithmError: ExitCode 1"'  # noqa: E501
    ]
    assert "hunter2" not in structured.facts[0].excerpt


def test_another_batch_job_is_marked():
    text = json.dumps({"jobs": [{"jobId": "b-2", "jobName": "x", "status": "FAILED"}]})
    assert facts(read("scheduler", text, scheduler="batch", job_id="b-1")) == [
        "batch-other.job id=b-2 status=FAILED"
    ]
