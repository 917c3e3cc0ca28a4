"""Nodes and devices under all their names: aliases, short names, PCI forms, NCCL bus ids."""

import re
from dataclasses import dataclass
from typing import Final

from engine.model.hostlist import expand_hostlist
from engine.model.workload import Workload

_PCI: Final = re.compile(
    r"^(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-9a-f]))?$", re.I
)
_BUS_ID: Final = re.compile(r"^(?:0x)?([0-9a-f]{3,12})$", re.I)
_SHORT: Final = re.compile(r"^[^.]+")
_NUMBER: Final = re.compile(r"\d+")
_IPV4: Final = re.compile(r"^\d{1,3}(?:\.\d{1,3}){3}$")


def normal_pci(text: str) -> str:
    """Return `dddd:bb:ss` in lower case for any form of a PCI address, NCCL bus ids included.

    Samples: `PCI:0000:20:00`, `00000000:30:00.0`, `3b:00.0`, NCCL `busId 30000`.
    """
    text = text.strip()
    if match := _PCI.match(text):
        domain = int(match[1] or "0", 16)
        return f"{domain:04x}:{match[2].lower()}:{match[3].lower()}"
    if match := _BUS_ID.match(text):
        # NCCL drops the separators: domain, two digits of bus, two of device, one of function.
        value = int(match[1], 16) >> 4
        return f"{value >> 16:04x}:{(value >> 8) & 0xFF:02x}:{value & 0xFF:02x}"
    return text.lower()


class NodeNames:
    """The job's nodes and their aliases: FQDNs, case, short names."""

    def __init__(self, workload: Workload) -> None:
        names = [name for item in workload.nodes for name in expand_hostlist(item)]
        names += [placement.node for placement in workload.ranks]
        self.nodes: tuple[str, ...] = tuple(dict.fromkeys(names))
        self._members = frozenset(self.nodes)
        self._by_alias: dict[str, str] = {}
        shorts: dict[str, set[str]] = {}
        for name in self.nodes:
            self._by_alias[name.lower()] = name
            shorts.setdefault(_short(name), set()).add(name)
        for short, owners in shorts.items():
            if len(owners) == 1:
                self._by_alias.setdefault(short, next(iter(owners)))

    def canonical(self, name: str) -> str:
        """Return the job's own name for `name`, or `name` unchanged where it is no job node."""
        if not name:
            return ""
        return self._by_alias.get(name.lower()) or self._by_alias.get(_short(name)) or name

    def learn(self, addresses: dict[str, set[str]]) -> None:
        """Add addresses that exactly one node of the job uses."""
        for address, owners in sorted(addresses.items()):
            if len(owners) == 1:
                self._by_alias.setdefault(address.lower(), next(iter(owners)))

    def is_member(self, name: str) -> bool:
        """Whether the canonical `name` is a node of the job; any is where none are known."""
        return not self.nodes or name in self._members

    def is_neighbour(self, name: str) -> bool:
        """Whether `name` is no node of the job but named like one, so another node's for sure.

        A name of another kind may be one of the job's nodes under a name that nobody told.
        """
        if not name or not self.nodes or name in self._members:
            return False
        scheme = _NUMBER.sub("#", _short(name))
        return "#" in scheme and any(_NUMBER.sub("#", _short(n)) == scheme for n in self.nodes)

    @property
    def only(self) -> str:
        """The single node of the job, or empty."""
        return self.nodes[0] if len(self.nodes) == 1 else ""


def _short(name: str) -> str:
    if _IPV4.match(name):
        return name
    match = _SHORT.match(name.lower())
    return match[0] if match else name.lower()


@dataclass(slots=True)
class Gpu:
    """One device of one node under its known names; `key` is its canonical id."""

    node: str
    index: int | None = None
    pci: str = ""
    uuid: str = ""
    serial: str = ""
    index_inferred: bool = False

    @property
    def key(self) -> str:
        """`node|name` by the strongest name."""
        name = self.pci or self.uuid or self.serial
        return f"{self.node}|{name}" if name else f"{self.node}|#{self.index}"


def unite_gpus(node: str, sightings: list[tuple[int | None, str, str, str]]) -> list[Gpu]:
    """Unite sightings that share a name; the strongest names are joined first."""
    gpus: list[Gpu] = []
    by_name: dict[tuple[str, str], Gpu] = {}
    ordered = sorted(set(sightings), key=lambda s: (-sum(map(bool, s[1:])), s[1:], s[0] or 0))
    for index, pci, uuid, serial in ordered:
        names = [("p", pci), ("u", uuid), ("s", serial)]
        gpu = next((by_name[n] for n in names if n[1] and n in by_name), None)
        if gpu is None and not (pci or uuid or serial):
            gpu = by_name.get(("#", str(index)))
        if gpu is None:
            gpu = Gpu(node)
            gpus.append(gpu)
        gpu.index = index if gpu.index is None else gpu.index
        gpu.pci, gpu.uuid, gpu.serial = gpu.pci or pci, gpu.uuid or uuid, gpu.serial or serial
        for name in (("p", gpu.pci), ("u", gpu.uuid), ("s", gpu.serial)):
            if name[1]:
                by_name.setdefault(name, gpu)
        if gpu.index is not None:
            by_name.setdefault(("#", str(gpu.index)), gpu)
    return gpus
