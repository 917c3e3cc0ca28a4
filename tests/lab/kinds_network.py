"""Faults between nodes, and of the addresses that a job is given."""

from tests.lab.registry import HARDWARE, OPEN, Label, kind
from tests.lab.run import VENV, Run

OTHERS = (*HARDWARE, "host", "storage", "scheduler")
SILENT = Label(
    "unknown", also=("network",), quality="insufficient", also_quality=("ambiguous", "probable"),
    may_name_nodes=True, also_terminal=("hung", "cancelled", "timeout"), innocent=OTHERS,
    why="The ranks report that peers did not answer; nothing in the evidence tells a broken link "
    "from a rank that stopped.",
)  # fmt: skip
NEVER_MET = Label(
    "unknown", also=("network", "operator", "framework"), quality="ambiguous",
    also_quality=("insufficient", "probable"),
    also_terminal=("cancelled", "not_started", "timeout"),
    innocent=(*OTHERS, "application"),
    why="The nodes never met; the evidence does not tell a firewall from a node that never came.",
)  # fmt: skip
ADDRESS = Label(
    "operator", also=("network",), quality="probable",
    also_quality=("definitive", "ambiguous", "insufficient"),
    also_terminal=("cancelled", "not_started"), innocent=(*OTHERS, "application"),
    why="The job was given an address that cannot be used.",
)  # fmt: skip


@kind(
    Label(
        "operator", also_quality=("probable",), also_terminal=("not_started",),
        innocent=(*OTHERS, "application", "network"), why="Another process holds the port.",
    ),
    is_core=True,
)  # fmt: skip
def port_in_use(run: Run) -> None:
    """The port of the rendezvous store is taken."""
    run.nodes()
    run.data()
    run.blame("another process listens on port 29500")
    listener = (
        'python3 -c "import socket,time; s=socket.socket(); '
        's.bind((\\"0.0.0.0\\",29500)); s.listen(); time.sleep(40)" & sleep 0.5'
    )
    command = [str(VENV / "bin/torchrun"), "--nproc-per-node", str(run.per_node)]
    command += ["--master-port", "29500", "train.py", "--steps", "10"]
    run.start(command=command, setup=listener)
    run.agents[0].process.wait(timeout=60)
    for pid in run.groups[0].pids():
        run.pids.add(pid)
    run.finish()


@kind(NEVER_MET)
def node_never_comes(run: Run) -> None:
    """One node of two or three never starts its launcher."""
    count = 2 + run.index % 2
    run.nodes(count, per_node=1)
    run.data()
    absent = count - 1
    run.blame("the launcher was never started on one node", nodes=[absent])
    command = [str(VENV / "bin/torchrun"), "--nnodes", str(count), "--nproc-per-node", "1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{run.names[0]}:29400"]
    command += ["--rdzv-id", run.job_id, "--rdzv-conf", f"join_timeout={5 + run.index}"]
    only = [each for each in range(count) if each != absent]
    run.start(command=[*command, "train.py", "--steps", "10"], only=only)
    run.finish(60)


@kind(NEVER_MET)
def rendezvous_host_unreachable(run: Run) -> None:
    """The store's host drops everything: connections time out."""
    run.nodes(2, per_node=1)
    run.data()
    run.blame("all packets to the store's port are dropped", nodes=[0])
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0 ; }; "
    run.network.at(0, "nft", rules + "add rule ip f i iifname eth0 drop")
    command = [str(VENV / "bin/torchrun"), "--nnodes", "2", "--nproc-per-node", "1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{run.names[0]}:29400"]
    command += ["--rdzv-id", run.job_id]
    command += ["--rdzv-conf", f"join_timeout={8 + run.index},read_timeout={8 + run.index}"]
    run.start(command=[*command, "train.py", "--steps", "10"])
    run.finish(50)


@kind(ADDRESS)
def rendezvous_refused(run: Run) -> None:
    """The launcher is given a port at which nobody listens."""
    run.nodes(2, per_node=1)
    run.data()
    run.blame("the second node was given another port", nodes=[1])
    base = [str(VENV / "bin/torchrun"), "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-id", "7"]
    conf = ["--rdzv-backend", "c10d", "--rdzv-conf", f"join_timeout={8 + run.index},read_timeout=8"]
    run.start(
        command=[*base, *conf, "--rdzv-endpoint", f"{run.names[0]}:29401", "train.py"], only=[1]
    )
    run.finish(50)


@kind(ADDRESS, is_core=True)
def host_name_unknown(run: Run) -> None:
    """The address of the store is a name that no resolver knows."""
    run.nodes(2, per_node=1)
    run.data()
    name = ("head-node", "master.cluster.internal", "train-worker-0.train-svc")[run.index % 3]
    run.blame(f"{name} does not resolve")
    base = [str(VENV / "bin/torchrun"), "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-id", "7"]
    conf = ["--rdzv-backend", "c10d", "--rdzv-conf", f"join_timeout={8 + run.index},read_timeout=8"]
    run.start(command=[*base, *conf, "--rdzv-endpoint", f"{name}:29400", "train.py"])
    run.finish(50)


@kind(
    Label(
        "operator", also=("network", "framework"), quality="probable",
        also_quality=("definitive", "ambiguous"), names_ranks=True,
        innocent=(*OTHERS, "application"),
        also_terminal=("not_started",),
        why="The setting names an interface that does not exist.",
    )
)  # fmt: skip
def interface_name_wrong(run: Run) -> None:
    """GLOO_SOCKET_IFNAME names no interface of the node."""
    run.nodes()
    run.data()
    name = ("eth9", "ib0", "bond0")[run.index % 3]
    run.blame(f"GLOO_SOCKET_IFNAME={name}", list(range(run.world)))
    run.start("--steps", "10", env={"GLOO_SOCKET_IFNAME": name})
    run.finish()


def _two_nodes_running(run: Run, timeout: int = 6) -> int:
    run.nodes(2)
    run.data()
    run.start("--steps", "150", "--timeout", str(timeout))
    run.wait_step()
    return run.rng.randrange(2)


@kind(SILENT)
def interface_down(run: Run) -> None:
    """The interface of one node goes down in the middle of training."""
    node = _two_nodes_running(run)
    run.blame("the interface was set down", nodes=[node])
    run.network.at(node, "ip", "link", "set", "eth0", "down")
    run.finish(40)


@kind(SILENT)
def switch_port_down(run: Run) -> None:
    """The bridge's port to one node goes down in the middle of training."""
    node = _two_nodes_running(run)
    run.blame("the switch port was set down", nodes=[node])
    run.network.at_switch("ip", "link", "set", f"port{node}", "down")
    run.finish(40)


@kind(SILENT)
def packets_dropped(run: Run) -> None:
    """From some moment on everything that one node receives is dropped."""
    node = _two_nodes_running(run)
    run.blame("all incoming packets are dropped", nodes=[node])
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0 ; }; "
    run.network.at(node, "nft", rules + "add rule ip f i iifname eth0 drop")
    run.finish(40)


@kind(SILENT)
def packets_lost_heavily(run: Run) -> None:
    """Nine of ten packets to one node are lost."""
    node = _two_nodes_running(run, timeout=4)
    run.blame("nine of ten incoming packets are dropped", nodes=[node])
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0 ; }; "
    run.network.at(
        node, "nft", rules + "add rule ip f i iifname eth0 numgen random mod 10 < 9 drop"
    )
    run.finish(40)


@kind(OPEN)
def connections_reset(run: Run) -> None:
    """The TCP connections between the nodes are reset by something in between."""
    node = _two_nodes_running(run)
    run.blame("TCP resets on the connections between the nodes", nodes=[node])
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0 ; }; "
    rule = (
        "add rule ip f i iifname eth0 tcp dport != 29400 tcp dport != 29500 reject with tcp reset"
    )
    run.network.at(node, "nft", rules + rule)
    run.finish(40)


@kind(OPEN)
def connections_destroyed(run: Run) -> None:
    """The kernel is told to close all of the job's connections on one node."""
    node = _two_nodes_running(run)
    run.blame("all TCP connections were destroyed", nodes=[node])
    peer = run.network.addresses[1 - node]
    run.network.at(node, "ss", "-K", "dst", peer, check=False)
    run.finish(40)


@kind(
    Label(
        "network", also=("unknown", "operator"), quality="ambiguous",
        also_quality=("insufficient", "probable"), innocent=(*OTHERS, "application"),
        also_terminal=("not_started", "cancelled"),
        why="The store was reached, the data ports were not.",
    )
)  # fmt: skip
def data_ports_blocked(run: Run) -> None:
    """A firewall lets the rendezvous port through and refuses all others."""
    run.nodes(2, per_node=1)
    run.data()
    run.blame("a firewall refuses all but the rendezvous port", nodes=[1])
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0 ; }; "
    verdict = ("drop", "reject with tcp reset", "reject with icmp type admin-prohibited")[
        run.index % 3
    ]
    for node in range(2):
        run.network.at(
            node, "nft", rules + "add rule ip f i iifname eth0 tcp flags & (syn|ack) == syn "
            f"tcp dport != 29400 tcp dport != 29500 {verdict}",
        )  # fmt: skip
    base = [str(VENV / "bin/torchrun"), "--nnodes", "2", "--nproc-per-node", "1"]
    for node in range(2):
        words = ["--node-rank", str(node), "--master-addr", run.names[0], "--master-port", "29500"]
        run.start(command=[*base, *words, "train.py", "--timeout", "6"], only=[node])
    run.finish(50)


@kind(
    Label(
        "operator", also=("network", "application", "framework", "unknown"), quality="ambiguous",
        also_quality=("insufficient", "probable"),
        also_terminal=("cancelled", "not_started"), innocent=OTHERS,
        why="More ranks were announced than started.",
    )
)  # fmt: skip
def world_size_too_large(run: Run) -> None:
    """WORLD_SIZE says one rank more than are started: the store waits for it."""
    run.nodes(per_node=2)
    run.data()
    run.blame("WORLD_SIZE is one too large")
    world = run.world + 1
    lines = [
        f"export MASTER_ADDR=127.0.0.1 MASTER_PORT={29600 + run.index} WORLD_SIZE={world}",
        *(f"RANK={rank} python -u train.py --timeout 5 &" for rank in range(run.world)),
        "for job in $(jobs -p); do wait $job || code=$?; done; exit $code",
    ]
    (run.work / "launch.sh").write_text("\n".join(lines) + "\n")
    run.start(command=["bash", "launch.sh"])
    run.finish(40)
