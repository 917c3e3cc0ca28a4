"""Tools that describe ports and links: ibv_devinfo, ethtool, `nvidia-smi topo -m`, lspci's AER.

Registers of AER hold what happened since the machine started, and a port may have been dark for
years, so these are facts to confirm with and seldom a cause.
"""

import re
from collections import Counter
from typing import Any, Final

from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import Entity, When

_HCA: Final = re.compile(r"^hca_id:\s{1,8}([\w.-]{1,40})\s{0,8}$")
_PORT: Final = re.compile(r"^\s{1,24}port:\s{1,8}(\d{1,3})\s{0,8}$")
_STATE: Final = re.compile(r"^\s{1,32}state:\s{1,12}PORT_([A-Z]{2,12})\b")
# Settings for eth0:
_ETHTOOL: Final = re.compile(r"^Settings for ([\w.@-]{1,32}):\s{0,8}$")
_SETTING: Final = re.compile(r"^\s{1,8}(Speed|Duplex|Link detected): (.{1,60})$")
# \tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
_TOPO_HEAD: Final = re.compile(r"^\s{0,16}(?:\x1b\[4m)?\s{0,16}GPU0\b")
_TOPO_ROW: Final = re.compile(
    r"^(GPU\d{1,3})((?:\s{1,8}(?:X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS)\b){1,512})"
)
_PCI_DEVICE: Final = re.compile(
    r"^([0-9a-fA-F]{4}:)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d) (.{1,200})$"
)
# \t\tUESta:\tDLP- SDES- TLP+ FCP- CmpltTO- ...
_AER: Final = re.compile(r"^\s{1,24}(UESta|CESta):\s{1,8}((?:[A-Za-z]{2,16}[+-]\s{0,2}){2,32})")
_USUAL: Final = frozenset({"UnsupReq", "ACSViol", "AdvNonFatalErr"})
"""Flags that probing for devices sets on healthy machines (kernel, PCI/pcieaer-howto)."""
_STATES: Final = {"DOWN": "Down", "INIT": "Initializing", "ARMED": "Armed", "ACTIVE": "Active"}


def read_inventory_links(sheet: Sheet) -> None:
    """Consume what describes ports and links; other lines stay."""
    _Links(sheet).read()


class _Links:
    """Reads line by line, remembering what the lines speak of."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.node = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
        us = sheet.label.captured_at_us
        self.when = When() if us is None else When(us, us, "record", self.node)
        self.hca = self.port = self.interface = self.pci = ""
        self.speed = ""
        self.rows: list[tuple[Line, str, list[str]]] = []

    def read(self) -> None:
        for index, line in list(self.sheet.free()):
            if self._verbs(line) or self._ethernet(line) or self._topology(line) or self._aer(line):
                self.sheet.consume(index)
        self._tell_topology()

    def _verbs(self, line: Line) -> bool:
        if match := _HCA.match(line.text):
            self.hca, self.port = match[1], ""
            return True
        if self.hca and (match := _PORT.match(line.text)):
            self.port = match[1]
            return True
        if self.port and (match := _STATE.match(line.text)):
            state = _STATES.get(match[1], match[1])
            self._add(line, device=self.hca, port=self.port, state=state)
            return True
        return False

    def _ethernet(self, line: Line) -> bool:
        if match := _ETHTOOL.match(line.text):
            self.interface, self.speed = match[1], ""
            return True
        match = _SETTING.match(line.text) if self.interface else None
        if not match:
            return False
        if match[1] == "Speed":
            self.speed = match[2].strip()
        if match[1] == "Link detected":
            is_up = match[2].strip().startswith("yes")
            state = "link" if is_up else "no_link"
            self._add(line, device=self.interface, state=state, message=self.speed)
            self.interface = ""
        return True

    def _topology(self, line: Line) -> bool:
        if match := _TOPO_ROW.match(line.text):
            self.rows.append((line, match[1], match[2].split()))
            return True
        return bool(_TOPO_HEAD.match(line.text))

    def _tell_topology(self) -> None:
        """Tell devices without NVLink only where most others of the machine have it."""
        count = len(self.rows)
        linked = [row for row in self.rows if _nvlinks(row[2][:count])]
        for line, name, cells in self.rows:
            kinds = Counter(cells[:count])
            del kinds["X"]
            told = ", ".join(f"{kind} x{kinds[kind]}" for kind in sorted(kinds))
            is_odd = 2 * len(linked) > count and not _nvlinks(cells[:count])
            state = "no_nvlink" if is_odd else "topology"
            entity = Entity(node=self.node, gpu_index=int(name.removeprefix("GPU")))
            self._add(line, entity, device=name, state=state, message=told)

    def _aer(self, line: Line) -> bool:
        if match := _PCI_DEVICE.match(line.text):
            self.pci = (match[1] or "0000:") + match[2]
            return False
        match = _AER.match(line.text) if self.pci else None
        if not match:
            return False
        flags = [flag[:-1] for flag in match[2].split() if flag.endswith("+")]
        if set(flags) - _USUAL:
            state = "aer_uncorrected" if match[1] == "UESta" else "aer_corrected"
            self._add(line, device=self.pci, state=state, message=" ".join(flags))
        return True

    def _add(self, line: Line, entity: Entity | None = None, **values: Any) -> None:
        self.sheet.add(
            "inventory.link",
            {"node": self.node, **values},
            lines=[line],
            when=self.when,
            entity=entity or Entity(node=self.node, nic=str(values["device"])),
        )


def _nvlinks(cells: list[str]) -> int:
    return sum(1 for cell in cells if cell.startswith("NV"))
