# ruff: noqa: E501 (log lines are literals)
"""Incidents of storage, memory, schedulers, platforms and people (catalogue 4.10: I9-I11, I15-I18, I30)."""

from tests.chains.scene import UNKNOWN, Scene, Told, incident

STOP = Told("scheduler", level="definitive")
APP = Told("application", symptom="value_error")
KEY = "KeyError: 'tokens'"
OOM = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
    "oom_memcg=/slurm/uid_1000/job_4100,task_memcg=/slurm/uid_1000/job_4100/step_0,task=python3,"
    "pid=702,uid=1000"
)


@incident(Told("storage"), UNKNOWN)
def i09_nfs_outage(s: Scene, twin: bool) -> None:
    for number in (1, 2):
        lines = [(39.5, "nfs: server 10.5.5.1 not responding, still trying"),
                 (52.0, "nfs: server 10.5.5.1 OK")]  # fmt: skip
        s.kernel(number, *[] if twin else lines)
    s.app(*s.placement(), *s.steps(39), *s.waited([0, 1, 2, 3], 50))


@incident(Told("storage"), APP)
def i10_client_evicted(s: Scene, twin: bool) -> None:
    said = ("LustreError: 167-0: scratch-MDT0000-mdc-ffff88: This client was evicted by "
            "scratch-MDT0000; in progress operations using this service will fail.")  # fmt: skip
    s.kernel(2, *[] if twin else [(40, said)])
    error = KEY if twin else "OSError: [Errno 5] Input/output error"
    s.app(*s.placement(), *s.steps(39), *s.crash(3, 40.2, error))


@incident(Told("host", level="definitive"), Told(("unknown", "host"), level="ambiguous"))
def i11_memory_of_the_job(s: Scene, twin: bool) -> None:
    s.job("FAILED" if twin else "OUT_OF_MEMORY", "0:125" if not twin else "1:0")
    s.kernel(2, *[] if twin else [(40, OOM)])
    s.app(*s.placement(), *s.steps(39), *s.closed([0, 1], 2), *s.elastic(2, 40.1, -9))


@incident(Told("host"), APP)
def i11_memory_of_a_pod(s: Scene, twin: bool) -> None:
    s.job("Failed", "137", scheduler="kubernetes", job_id="llm", nodes=[s.node(1), s.node(2)])
    who = "notebook-0" if twin else "llm-worker-1"
    s.kubectl(
        "NAME           READY   STATUS      RESTARTS   AGE   IP         NODE\n"
        f"{who}   0/1     OOMKilled   0          20m   10.0.0.8   {s.node(9 if twin else 2)}\n"
        f"llm-worker-0   0/1     Error       0          60m   10.0.0.9   {s.node(1)}\n"
    )
    s.app(*s.steps(39), *(s.raised(0, 40, KEY) if twin else s.closed([0, 1], 2)))


@incident(STOP, UNKNOWN, minutes=120)
def i15_time_limit(s: Scene, twin: bool) -> None:
    s.job("TIMEOUT", "0:0", time_limit="2:00:00")
    end = f"{s.at(120):%Y-%m-%dT%H:%M:%S}"
    waits = s.waited([0, 1, 2, 3], 50) if twin else []
    s.app(*s.placement(), *s.steps(39 if twin else 119), *waits,
          f"slurmstepd: error: *** JOB 4100 ON {s.node(1)} CANCELLED AT {end} DUE TO TIME LIMIT ***")  # fmt: skip


@incident(UNKNOWN, STOP, minutes=400)
def i16_hidden_hang(s: Scene, twin: bool) -> None:
    s.job("TIMEOUT", "0:0", time_limit="6:40:00")
    s.app(*s.placement(), *s.steps(399 if twin else 120))


@incident(UNKNOWN, STOP, minutes=400)
def i16_hidden_hang_in_a_pod(s: Scene, twin: bool) -> None:
    s.job("DeadlineExceeded", "137", scheduler="kubernetes", job_id="llm")
    s.app(*s.steps(399 if twin else 120))


@incident(Told("operator", level="definitive"), UNKNOWN)
def i17_cancelled_by_its_owner(s: Scene, twin: bool) -> None:
    s.job("CANCELLED by 1000", "0:15")
    s.control((60, "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4100 uid 1000"))
    s.app(*s.placement(), *s.steps(39 if twin else 59.8),
          *(s.waited([0, 1, 2, 3], 50) if twin else s.closed([0, 1], 2)))  # fmt: skip


@incident(STOP, APP)
def i18_preempted_by_slurm(s: Scene, twin: bool) -> None:
    if not twin:
        s.job("PREEMPTED", "0:15")
    s.app(*s.placement(), *s.steps(49), *(s.raised(1, 50, KEY) if twin else []))


@incident(STOP, APP)
def i18_preempted_by_the_queue(s: Scene, twin: bool) -> None:
    s.job("Failed" if twin else "Evicted", None, scheduler="kueue", job_id="llm")
    stamp = f"{s.at(59.5):%Y-%m-%dT%H:%M:%SZ}"
    name = "other" if twin else "llm"
    s.add("kubernetes", (
        '{"apiVersion":"kueue.x-k8s.io/v1beta1","kind":"Workload","metadata":{"name":"job-' + name +
        '","namespace":"ml","ownerReferences":[{"kind":"Job","name":"' + name + '"}]},"status":'
        '{"conditions":[{"type":"Evicted","status":"True","reason":"Preempted","message":"Preempted '
        'to accommodate a workload (UID: 1b2c, JobUID: 77) due to prioritization in the '
        'ClusterQueue","lastTransitionTime":"' + stamp + '"}]}}'))  # fmt: skip
    s.app(*s.steps(49), *(s.raised(1, 50, KEY) if twin else []))


@incident(STOP, Told(("operator", "scheduler")))
def the_platform_says_why_it_stopped(s: Scene, twin: bool) -> None:
    s.job("Stopped", None, scheduler="sagemaker", job_id="llm", name="llm")
    status = "Stopped" if twin else "MaxRuntimeExceeded"
    s.add("scheduler", '{"TrainingJobName":"llm","TrainingJobStatus":"Stopped","SecondaryStatus":"'
          + status + '"}')  # fmt: skip
    s.app(*s.steps(59.5))


@incident(Told("host", (2,)), APP)
def i30_unhealthy_node_evicted(s: Scene, twin: bool) -> None:
    s.job("Failed", "1", scheduler="kubernetes", job_id="llm")
    node = s.node(9 if twin else 2)
    s.kubectl(
        "LAST SEEN   TYPE      REASON         OBJECT             MESSAGE\n"
        f"12m         Normal    NodeNotReady   node/{node}        Node {node} status is now: NodeNotReady\n"
    )
    s.app(*s.steps(46), *(s.raised(0, 47, KEY) if twin else s.closed([0, 1], 2)))


@incident(Told("storage", level="definitive", symptom="enospc"), APP)
def disk_full_while_saving(s: Scene, twin: bool) -> None:
    error = KEY if twin else "OSError: [Errno 28] No space left on device: '/ckpt/iter_1000'"
    s.app(*s.placement(), *s.steps(39), *s.crash(0, 40, error))


@incident(
    Told("storage"), Told(("application", "data", "operator", "unknown", "storage"), level="")
)
def quota_exceeded(s: Scene, twin: bool) -> None:
    error = ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train/shard-0003.tar'"
             if twin else "OSError: [Errno 122] Disk quota exceeded: '/ckpt/iter_0001000'")  # fmt: skip
    s.app(*s.placement(), *s.steps(39), *s.crash(0, 40, error))


@incident(Told("storage"), APP)
def stale_handle(s: Scene, twin: bool) -> None:
    error = KEY if twin else "OSError: [Errno 116] Stale file handle: '/data/shard-001.tar'"
    s.app(*s.placement(), *s.steps(39), *s.crash(2, 40, error))


@incident(Told("operator"), Told("storage"))
def expired_credentials(s: Scene, twin: bool) -> None:
    kind = ("SlowDown) when calling the PutObject operation (reached max retries: 4): Please reduce "
            "your request rate." if twin else
            "ExpiredToken) when calling the UploadPart operation: The provided token has expired.")  # fmt: skip
    s.app(
        *s.steps(39), *s.crash(0, 40, f"botocore.exceptions.ClientError: An error occurred ({kind}")
    )


@incident(Told("scheduler"), UNKNOWN, minutes=1)
def prolog_failed(s: Scene, twin: bool) -> None:
    said = "error: [job 4100] prolog failed status=1:0"
    s.control((0.2, "_slurm_rpc_submit_batch_job: JobId=4100 InitPrio=100" if twin else said))


@incident(Told("operator"), APP)
def image_that_does_not_exist(s: Scene, twin: bool) -> None:
    s.job("Failed", None, scheduler="kubernetes", job_id="llm")
    state = "Error" if twin else "ImagePullBackOff"
    s.kubectl(
        "NAME           READY   STATUS             RESTARTS   AGE   IP         NODE\n"
        f"llm-worker-0   0/1     {state}   0          60m   10.0.0.9   {s.node(1)}\n"
    )
    if twin:
        s.app(*s.raised(0, 2, KEY))


@incident(STOP, UNKNOWN)
def spot_interruption(s: Scene, twin: bool) -> None:
    s.job("FAILED", "143")
    if not twin:
        s.add("scheduler", '{"detail-type":"EC2 Spot Instance Interruption Warning","time":"'
              f'{s.at(58):%Y-%m-%dT%H:%M:%SZ}'
              '","detail":{"instance-id":"i-0abc12345","instance-action":"terminate"}}')  # fmt: skip
    s.app(*s.steps(58), *s.closed([0, 1], 2))


@incident(Told("operator"), UNKNOWN)
def terminal_closed(s: Scene, twin: bool) -> None:
    s.job("FAILED", "1", scheduler="none")
    said = ("WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting "
            "down workers")  # fmt: skip
    s.app(*s.steps(30), *([] if twin else [said]), *s.closed([0, 1], 2))


@incident(Told("network"), Told(("network", "unknown"), level="ambiguous"))
def a_name_that_no_server_knows(s: Scene, twin: bool) -> None:
    error = ("torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
             "while trying to connect to (10.0.0.1, 29500)." if twin else
             "socket.gaierror: [Errno -2] Name or service not known")  # fmt: skip
    s.app(*s.raised(2, 2, error))


@incident(UNKNOWN, Told("host"))
def killed_without_a_record(s: Scene, twin: bool) -> None:
    if twin:
        s.kernel(2, (40, OOM))
    s.app(*s.steps(39), f"srun: error: {s.node(2)}: task 3: Killed", *s.closed([0, 1], 2))
