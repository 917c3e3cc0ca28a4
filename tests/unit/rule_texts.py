"""Small rules that the rulebook tests vary."""

from engine.rulebook.load import LoadedRule, read_rule

SYMPTOM = """\
id: gpu/bus_loss
kind: symptom
version: 1
sources: ['https://docs.nvidia.com/deploy/xid-errors/']
symptom: gpu_lost
title: The GPU left the bus
domain: gpu
role: root
tier: 1
entity: gpu
tags: [gpu_loss]
signatures:
  - name: main
    sources: [syslog]
    scan: 'GPU at PCI:(?P<pci>[0-9a-fA-F:.]+) has fallen off'
    identity: [pci]
    samples: ['kernel: NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.']
    near_misses: ['kernel: NVRM: GPU at PCI:0000:3b:00 is back']
"""

CAUSE = """\
id: pairs/loss_hangs
kind: cause
version: 1
sources: ['field report']
title: A lost GPU stops its peers
causes: [gpu_lost]
effects: ['#collective_failure']
join: job
"""

TIMEOUT = """\
id: net/watchdog
kind: symptom
version: 1
sources: ['PyTorch ProcessGroupNCCL.cpp']
symptom: collective_timeout
title: A collective timed out
domain: unknown
role: secondary
tier: 6
tags: [collective_failure]
signatures:
  - sources: [applog]
    scan: 'Watchdog caught collective operation timeout'
    extract: 'operation timeout: \\w+\\(SeqNum=(?P<seq>\\d+)'
    identity: [seq]
    samples: ['[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, Op']
"""

FAMILY = """\
id: gpu/xid
kind: family
version: 1
sources: ['NVIDIA Xid errors, r570']
title: NVIDIA driver events
key: code
signatures:
  - sources: syslog
    scan: 'NVRM: Xid \\(PCI:'
    extract: 'NVRM: Xid \\(PCI:(?P<pci>[0-9a-fA-F:.]+)\\): (?P<code>\\d+)'
    identity: [pci, code]
    samples: ['NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.']
rows:
  - code: 79
    symptom: xid_79
    title: Xid 79
    domain: gpu
    role: root
    tier: 1
    samples: ['NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.']
  - code: [13, 31]
    symptom: xid_application
    title: Xid 13 or 31
    domain: application
    role: ambiguous
    tier: 4
default:
  symptom: xid_other
  title: Another Xid
  domain: gpu
  role: ambiguous
  tier: 4
"""


def rule(text: str) -> LoadedRule:
    """The rule that `text` is; its id says where it stands."""
    path = text.split("\n", 1)[0].removeprefix("id: ") + ".yaml"
    loaded, problems = read_rule(path, text.encode())
    assert loaded is not None, problems
    return loaded


def problems_of(text: str, path: str = "gpu/bus_loss.yaml") -> list[str]:
    """What the loader says of `text`."""
    _, problems = read_rule(path, text.encode())
    return [str(problem) for problem in problems]
