# ruff: noqa: E501 (log lines are literals)
"""Incidents of devices, links, hosts and the fabric (catalogue 4.10: I1-I8, I19, I21, I23, I25)."""

from tests.chains.scene import UNKNOWN, Scene, Told, incident

APP = Told("application", symptom="value_error")
KEY = "KeyError: 'tokens'"
RAISES = "torch.AcceleratorError: CUDA error: unspecified launch failure"


def xid(code: int, text: str, *, device: int = 1, pid: int = 702) -> str:
    """A line of the driver about a device."""
    return f"NVRM: Xid (PCI:0000:{device + 1:x}0:00): {code}, pid={pid}, name=python3, {text}"


@incident(Told("gpu", (2,), "definitive", "gpu_uncorrectable_ecc"), APP)
def i01_double_bit_error(s: Scene, twin: bool) -> None:
    faults = [
        (
            50.0,
            xid(48, "An uncorrectable double bit error (DBE) has been detected on GPU", pid=703),
        ),
        (50.02, xid(63, "Row Remapper: New row marked for remapping, reset gpu to activate.")),
        (50.03, xid(45, "Ch 00000010, errorString OS, Info 0x1", pid=703)),
    ]
    if twin:  # the same device, a day before the last boot
        faults = [(-1500.0, faults[0][1]), (-1400.0, "Linux version 5.15.0-105-generic")]
    error = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
    s.kernel(2, *faults)
    s.app(*s.placement(), *s.steps(49), *s.crash(3, 50.05, KEY if twin else error))


@incident(Told("gpu", (1,), "definitive"), Told("unknown"))
def i01_contained_error(s: Scene, twin: bool) -> None:
    s.kernel(1, *[] if twin else [(40, xid(94, "Contained: SM (0x1). RST: No, D-RST: No", device=0)),
                                  (40.02, xid(45, "Ch 00000008", device=0))])  # fmt: skip
    s.app(*s.placement(), *s.steps(39), *s.closed([2, 3], 1), *s.elastic(0, 40.1, -6))


@incident(Told("pcie", (2,), "definitive"), APP)
def i02_bus_drop_after_aer(s: Scene, twin: bool) -> None:
    minute = 58 if twin else 30
    s.kernel(
        2,
        (minute, "pcieport 0000:1f:01.0: AER: Uncorrected (Fatal) error received: 0000:20:00.0"),
        (minute + 0.02, xid(79, "GPU has fallen off the bus.", pid=0)),
        (minute + 0.03, xid(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
                            "Required)", pid=0)),
    )  # fmt: skip
    s.app(*s.placement(), *s.steps(29), *s.crash(3 if not twin else 0, 30.2,
          KEY if twin else RAISES))  # fmt: skip


@incident(Told("gpu", (2,), "definitive", "gpu_fallen_off_bus"), APP)
def i02_bus_drop(s: Scene, twin: bool) -> None:
    s.kernel(2, (30.5 if twin else 30, xid(79, "GPU has fallen off the bus.", pid=0)))
    error = s.raised(0, 30, KEY) if twin else s.crash(3, 30.1, RAISES)
    s.app(*s.placement(), *s.steps(29), *error)


@incident(Told("gpu", (2,), "definitive"), UNKNOWN)
def i02_bus_drop_while_all_wait(s: Scene, twin: bool) -> None:
    s.kernel(2, *[] if twin else [(30, xid(79, "GPU has fallen off the bus.", pid=0))])
    s.app(*s.placement(), *s.steps(29), *s.waited([0, 1, 2, 3], 40))


@incident(Told("gpu", (2,), "definitive", "gpu_gsp_timeout"), UNKNOWN)
def i03_gsp_hang(s: Scene, twin: bool) -> None:
    said = "Timeout after 6s of waiting for RPC response from GPU1 GSP! Expected function 76"
    s.kernel(2, *[] if twin else [(30 + n / 10, xid(119, said, pid=703)) for n in range(3)])
    s.app(*s.placement(), *s.steps(29), *s.waited([0, 1, 2], 40))


@incident(Told("nvlink", (1,)), APP)
def i04_blackwell_link(s: Scene, twin: bool) -> None:
    link = xid(
        149,
        "NETIR_LINK_EVT Fatal XC0 i0 Link 09 "
        "(0x002b45c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        device=0,
    )
    node = 2 if twin else 1
    s.kernel(node, (70 if twin else 45, link),
             (70.1 if twin else 45.02, xid(145, "RLW_SRC_TRACK Nonfatal XC0 i0 Link 09 (0x0)")))  # fmt: skip
    error = "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution"
    s.app(*s.placement(), *s.steps(44), *s.crash(0, 45.1, KEY if twin else error))


@incident(Told("nvlink", (1,), "definitive"), Told(("nvlink", "unknown"), level="ambiguous"))
def i05_switch_fatal(s: Scene, twin: bool) -> None:
    kind = "Non-fatal, Link 46 RX Short Error Rate" if twin else "Fatal, Link 46 LTSSM Fault Up"
    code = "12028" if twin else "20001"
    lines = [(45.0, f"nvidia-nvswitch3: SXid (PCI:0000:85:00.0): {code}, {kind}")]
    if not twin:
        lines += [(45.01, xid(74, "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0)",
                              device=n)) for n in range(2)]  # fmt: skip
    s.kernel(1, *lines)
    s.app(*s.placement(), *s.steps(44), *s.closed([2, 3], 1), *s.elastic(0, 45.1, -6))


@incident(Told("host", level="definitive"), Told(("unknown", "host"), level="ambiguous"))
def i06_killed_rank_and_switch_noise(s: Scene, twin: bool) -> None:
    kill = [
        (40.0, "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,"
               "global_oom,task_memcg=/slurm/job_4100,task=python3,pid=702,uid=1000"),
        (40.01, "Out of memory: Killed process 702 (python3) total-vm:9000000kB, "
                "anon-rss:8000000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1 kB "
                "oom_score_adj:0"),
    ]  # fmt: skip
    noise = (40.05, "nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 46")
    s.kernel(2, *([] if twin else kill), noise)
    s.app(*s.placement(), *s.steps(39), *s.closed([0, 1], 2), *s.elastic(2, 40.1, -9))


@incident(Told("network", (2,)), UNKNOWN)
def i07_cable_flap(s: Scene, twin: bool) -> None:
    if not twin:
        s.kernel(2, (40, "mlx5_core 0000:5e:00.0 ib0: Link down"),
                 (40.1, "mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, "
                        "Bus stuck (I2C or data shorted)"))  # fmt: skip
    lines = [
        f"{s.node(1)}:700:760 [0] NCCL WARN NET/IB : Got completion from peer {s.node(2)}<39012> "
        "with status=12 opcode=129 len=0 vendor err 129 (Recv) hca mlx5_0"
    ]
    s.app(*s.placement(), *s.steps(39), *(s.closed([0, 1], 2) if twin else lines),
          *s.elastic(0, 41, -6))  # fmt: skip


@incident(Told("network", (2,), "definitive", "nic_firmware_lost"), UNKNOWN)
def i08_nic_firmware(s: Scene, twin: bool) -> None:
    lines = [
        (40.0, "mlx5_core 0000:5e:00.0: poll_health:795:(pid 0): device's health compromised - "
               "reached miss count"),
        (40.05, "mlx5_core 0000:5e:00.0 ib0: Link down"),
    ]  # fmt: skip
    s.kernel(2, *[] if twin else lines)
    told = f"{s.node(2)}:702:762 [0] NCCL WARN NET/IB : mlx5_0:1 Got async fatal event: local catastrophic error"
    s.app(*s.placement(), *s.steps(39), *([] if twin else [told]), *s.closed([0, 1], 2),
          *s.elastic(2, 40.3, -6))  # fmt: skip


@incident(Told("host", (2,)), Told("unknown"))
def i19_node_crash(s: Scene, twin: bool) -> None:
    s.job("FAILED" if twin else "NODE_FAIL", "0:0" if not twin else "1:0")
    if not twin:
        s.control((46, f"error: Nodes {s.node(2)} not responding"),
                  (48, f"error: Nodes {s.node(2)} not responding, setting DOWN"))  # fmt: skip
        s.kernel(2, (42, "Kernel panic - not syncing: Fatal exception in interrupt"))
    s.app(*s.placement(), *s.steps(42), *s.closed([0, 1], 2))


@incident(Told("host", (2,)), Told(("operator", "scheduler", "unknown", "host")))
def i19_node_lost_without_logs(s: Scene, twin: bool) -> None:
    s.job("NODE_FAIL", "0:0")
    s.control((48, f"error: Nodes {s.node(9 if twin else 2)} not responding, setting DOWN"))
    s.app(*s.placement(), *s.steps(42), *s.closed([0, 1], 2))


@incident(Told("operator"), Told("host", (2,)))
def i20_maintenance_reboot(s: Scene, twin: bool) -> None:
    s.job("NODE_FAIL", "0:0")
    last = "Kernel panic - not syncing: hung_task: blocked tasks"
    s.kernel(2, (46, last if twin else "systemd-logind[1234]: System is rebooting."))
    s.control((48, f"error: Nodes {s.node(2)} not responding, setting DOWN"))
    s.app(*s.placement(), *s.steps(45))


@incident(Told("gpu", symptom="megatron_transient_error"), Told(("application", "unknown")))
def i21_silent_corruption(s: Scene, twin: bool) -> None:
    kind = ("Correct result (but possible Application error)" if twin else
            "First rerun: unexpected result is not reproducible within the tolerance. Possible "
            "transient error!")  # fmt: skip
    s.app(
        *s.placement(), *s.steps(39),
        f"[rank1]: ERROR:megatron.core.rerun_state_machine:Rank 1, node {s.node(1)}, device 1, "
        f"iteration #1200: {kind}",
    )  # fmt: skip


@incident(Told("gpu", (2,)), Told(("operator", "application", "unknown")))
def i25_missing_gpu(s: Scene, twin: bool) -> None:
    if not twin:
        s.kernel(2, (-300, xid(79, "GPU has fallen off the bus.", pid=0)))
    error = "torch.AcceleratorError: CUDA error: invalid device ordinal"
    s.app(*s.crash(3, 1, error))


@incident(Told("gpu"), Told("unknown"), minutes=2)
def i25_gres_too_low(s: Scene, twin: bool) -> None:
    s.job("FAILED", "1:0")
    count = "gres/gpu count changed from 0 to 8" if twin else "gres/gpu count too low (7 < 8)"
    name = s.node(2)
    s.control((0.5, f"error: _slurm_rpc_node_registration node={name}: Invalid argument"),
              (0.5, f"error: Setting node {name} state to INVAL with reason:{count}"))  # fmt: skip
    s.app("srun: error: Unable to create step for job 4100: Requested nodes are busy")


@incident(Told("nvlink", (1,)), Told(("application", "framework")))
def i26_fabric_manager_down(s: Scene, twin: bool) -> None:
    s.kernel(1, (-20, "nvidia-fabricmanager: " + (
        "Fabric Manager version 550.54.15 started successfully" if twin else
        "detected number of NVSwitches don't match with any supported system topology, aborting "
        "fabric manager")))  # fmt: skip
    error = ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
             "functions before calling NumCudaDevices() that might have already set an error? "
             "Error 802: system not yet initialized")  # fmt: skip
    mine = "ModuleNotFoundError: No module named 'flash_attn'" if twin else error
    s.app(*[line for rank in (0, 1) for line in s.raised(rank, 1, mine)])


@incident(Told("gpu", (1,)), APP)
def pmu_halt_then_memory_fault(s: Scene, twin: bool) -> None:
    s.kernel(1, (90 if twin else 30, xid(62, "2a3c1e00 00001d2e 00000000", device=0)),
             (90.1 if twin else 30.04, xid(31, "Ch 00000008, intr 00000000. MMU Fault: ENGINE "
                                           "GRAPHICS", device=0, pid=700)))  # fmt: skip
    s.app(*s.placement(), *s.steps(29), *s.crash(0, 30.1, KEY if twin else RAISES))


@incident(Told("host", (2,)), UNKNOWN)
def machine_check(s: Scene, twin: bool) -> None:
    fatal = "mce: [Hardware Error]: Machine check: Processor context corrupt"
    fine = "mce: [Hardware Error]: Machine check events logged"
    s.job("NODE_FAIL" if not twin else "FAILED")
    s.kernel(2, (42, fine if twin else fatal))
    if not twin:
        s.control((48, f"error: Nodes {s.node(2)} not responding, setting DOWN"))
    s.app(*s.placement(), *s.steps(42), *s.closed([0, 1], 2))


@incident(Told("gpu", (2,)), Told("application", symptom="value_error"))
def amd_uncorrectable(s: Scene, twin: bool) -> None:
    said = "amdgpu 0000:20:00.0: amdgpu: socket: 0 2 uncorrectable hardware errors detected in gfx block"
    s.kernel(2, (64.9 if twin else 30, said))
    error = "RuntimeError: HIP error: unspecified launch failure"
    s.app(*s.steps(29), *s.crash(3, 30.1, KEY if twin else error))


@incident(Told("gpu", (1,)), UNKNOWN)
def an_old_fault_of_a_device_of_another_job(s: Scene, twin: bool) -> None:
    s.job("FAILED", nodes=[s.node(1)], world_size=2)
    s.node_count = 1
    s.kernel(1, (30, xid(79, "GPU has fallen off the bus.", device=6 if twin else 1, pid=0)))
    s.app(*s.placement(), *s.steps(29), *s.waited([0, 1], 40))


@incident(Told("host", (1,)), Told("framework"))
def driver_and_library_differ(s: Scene, twin: bool) -> None:
    s.job("FAILED", nodes=[s.node(1)], world_size=2)
    if not twin:
        s.kernel(1, (0.5, "NVRM: API mismatch: the client has the version 550.54.15, but\n"
                          "NVRM: this kernel module has the version 535.104.12."))  # fmt: skip
    error = (
        (
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or "
            "directory"
        )
        if twin
        else "RuntimeError: Failed to initialize NVML: Driver/library version mismatch"
    )
    s.app(*s.raised(0, 1, error))


@incident(Told("gpu", (2,), "definitive"), Told("operator"))
def a_fault_before_somebody_cancels(s: Scene, twin: bool) -> None:
    s.job("CANCELLED by 1000", "0:15")
    s.kernel(2, *[] if twin else [(40, xid(79, "GPU has fallen off the bus.", pid=0))])
    s.control((60, "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4100 uid 1000"))
    s.app(*s.placement(), *s.steps(59.5 if twin else 39), *([] if twin else s.waited([0, 1], 50)))


@incident(Told("gpu", (2,), "definitive"), Told("scheduler", level="definitive"), minutes=300)
def a_fault_that_stalls_until_the_limit(s: Scene, twin: bool) -> None:
    s.job("TIMEOUT", "0:0", time_limit="5:00:00")
    s.kernel(2, *[] if twin else [(40, xid(79, "GPU has fallen off the bus.", pid=0))])
    s.app(*s.placement(), *s.steps(299 if twin else 39))
