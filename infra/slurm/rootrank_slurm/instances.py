"""Which machine a node is, where Slurm does not know: from a JSON file that the site keeps.

Either `{"gpu-1": "i-0123456789abcdef0"}`, or HyperPod's own resource_config.json, whose nodes are
named by their address (`ip-10-1-2-3`).
"""

import json
import re
from typing import Any, Dict, Iterator, Tuple

_NODE = re.compile(r"^NodeName=(\S+).*?(?: InstanceId=(\S+))?(?: Reason=|$)", re.M)
_INSTANCE = re.compile(r"^i-[0-9a-f]{8,17}$")
_MAX_CHARS = 60000


def read_instances(path: str) -> Dict[str, str]:
    """Return node to instance; empty where there is no such file, or not what it should be."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    named = dict(_of_hyperpod(value)) if "InstanceGroups" in value else value
    return {
        node: name
        for node, name in named.items()
        if isinstance(name, str) and _INSTANCE.match(name)
    }


def _of_hyperpod(value: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
    for group in value["InstanceGroups"] or []:
        for each in group.get("Instances") or [] if isinstance(group, dict) else []:
            if isinstance(each, dict):
                address = str(each.get("CustomerIpAddress", ""))
                yield "ip-" + address.replace(".", "-"), each.get("InstanceId")


def instances_of(nodes: str, known: Dict[str, str]) -> Dict[str, str]:
    """Return the instances of a job's nodes: as `scontrol show node` says, else as the file."""
    found: Dict[str, str] = {}
    size = 0
    for match in _NODE.finditer(nodes):
        name = match.group(2) or known.get(match.group(1), "")
        if not _INSTANCE.match(name):
            continue
        size += len(match.group(1)) + len(name) + 8
        if size > _MAX_CHARS:
            break
        found[match.group(1)] = name
    return found
