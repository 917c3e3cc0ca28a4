"""`nvidia-smi -q -x`: one element a line, read as lines.

No XML parser looks at it: entities of a hostile document are never resolved, and a report that
was cut in the middle still says what it says. The facts are those of `nvidia-smi -q`, so that the
same rules read both.
"""

import re
from typing import Final

from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import Entity, When

# <gpu id="00000000:07:00.0">
_GPU: Final = re.compile(
    r'^\s{0,16}<gpu id="([0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])">\s{0,8}$'
)
# <reset_required>No</reset_required>
_FIELD: Final = re.compile(r"^\s{0,32}<([a-z][a-z0-9_]{0,60})>([^<>]{0,200})</\1>\s{0,8}$")
_OPEN: Final = re.compile(r"^\s{0,32}<([a-z][a-z0-9_]{0,60})>\s{0,8}$")
_CLOSE: Final = re.compile(r"^\s{0,32}</([a-z][a-z0-9_]{0,60})>\s{0,8}$")
_ROOT: Final = "<nvidia_smi_log>"
_HEAD_LINES: Final = 20
_MAX_DEPTH: Final = 32
_TOLD: Final = {  # how `nvidia-smi -q` calls an element, by the element it stands in
    ("gpu_reset_status", "reset_required"): "Reset Required",
    ("gpu_reset_status", "drain_and_reset_recommended"): "Drain and Reset Recommended",
    ("", "gpu_recovery_action"): "GPU Recovery Action",
    ("remapped_rows", "remapped_row_pending"): "Pending",
    ("remapped_rows", "remapped_row_failure"): "Remapping Failure Occurred",
    ("retired_pages", "pending_blacklist"): "Pending Page Blacklist",
    ("retired_pages", "pending_retirement"): "Pending Page Blacklist",
    ("fabric", "state"): "State",
    ("fabric", "status"): "Status",
}
_BAD: Final = re.compile(
    r"ERR!|Unknown Error|GPU requires reset|GPU is lost|^Yes$|Fail|Fault|^(?:Drain and )?Reset$"
    r"|Reboot",
)
_BROKEN: Final = re.compile(r"ERR!|Unknown Error|GPU requires reset|GPU is lost")


def read_inventory_xml(sheet: Sheet) -> None:
    """Consume the elements of a log of `nvidia-smi -q -x`; anything else stays."""
    if not any(line.text.strip() == _ROOT for line in sheet.lines[:_HEAD_LINES]):
        return
    node = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
    us = sheet.label.captured_at_us
    reader = _Reader(sheet, node, When() if us is None else When(us, us, "record", node))
    for index, line in list(sheet.free()):
        if reader.take(line):
            sheet.consume(index)
    reader.finish()


class _Reader:
    """Reads element by element; what identifies a device comes after its first fields."""

    def __init__(self, sheet: Sheet, node: str, when: When) -> None:
        self.sheet = sheet
        self.node = node
        self.when = when
        self.pci = ""
        self.known: dict[str, str] = {}
        self.first: Line | None = None
        self.faults: list[tuple[Line, str]] = []
        self.path: list[str] = []

    def take(self, line: Line) -> bool:
        if match := _GPU.match(line.text):
            self.finish()
            self.pci, self.first, self.path = match[1], line, []
            return True
        if match := _FIELD.match(line.text):
            self._field(line, match[1], match[2].strip())
            return True
        if match := _CLOSE.match(line.text):
            if match[1] == "gpu":
                self.finish()
            elif self.path and self.path[-1] == match[1]:
                self.path.pop()
            return True
        if match := _OPEN.match(line.text):
            if len(self.path) < _MAX_DEPTH:
                self.path.append(match[1])
            return True
        return line.text.lstrip().startswith(("<?xml", "<!DOCTYPE"))

    def _field(self, line: Line, name: str, value: str) -> None:
        if not self.pci:
            return
        inside = self.path[-1] if self.path else ""
        if name in ("uuid", "minor_number", "product_name", "serial") and not inside:
            self.known[name] = value
        told = _TOLD.get((inside, name))
        if told and _BAD.search(value):
            self.faults.append((line, f"{told}: {value}"))
        elif _BROKEN.search(value):
            self.faults.append((line, f"{name.replace('_', ' ')}: {value}"))

    def finish(self) -> None:
        """Tell the device that was read so far."""
        first, pci = self.first, self.pci
        known, faults = self.known, self.faults
        self.first, self.pci, self.known, self.faults = None, "", {}, []
        if first is None:
            return
        uuid = known.get("uuid", "")
        uuid = uuid if uuid.startswith("GPU-") else ""
        serial = known.get("serial", "")
        entity = Entity(
            node=self.node,
            gpu_pci=pci,
            gpu_uuid=uuid,
            gpu_serial=serial if serial.isdigit() else "",
        )
        values = {"node": self.node, "pci": pci, "uuid": uuid, "name": known.get("product_name")}
        told = [(first, {"state": "listed"})]
        told += [(line, {"state": "unhealthy", "message": text}) for line, text in faults]
        for line, more in told:
            self.sheet.add(
                "inventory.gpu", {**values, **more}, lines=[line], when=self.when, entity=entity
            )
