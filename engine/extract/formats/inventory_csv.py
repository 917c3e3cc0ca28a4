"""`nvidia-smi --query-gpu=... --format=csv`: one header line, one row a device.

A link narrower than its slot is taken only where most devices of the same listing have their full
width: a board with narrow slots shows every device alike, and a link's generation falls at idle.
"""

import re
from typing import Any, Final

from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import Entity, When

MAX_COLUMNS: Final = 64
MAX_CELL: Final = 80
_HEADER: Final = re.compile(r"^\s*[a-z][\w.]{1,60}(?: \[[\w%/]{1,12}\])?\s*,")
_IDENTITY: Final = frozenset({"index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid"})
_BAD: Final = re.compile(r"GPU requires reset|GPU is lost|Unknown Error|ERR!")
_PCI: Final = re.compile(r"^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d$")
_REASONS: Final = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
# NVML's bits for what a fault or heat does, not for what a power cap or an idle device does.
_SLOWED: Final = (
    (0x40, "HW Thermal Slowdown"), (0x20, "SW Thermal Slowdown"), (0x80, "HW Power Brake Slowdown"),
    (0x08, "HW Slowdown"),
)  # fmt: skip


class _Row:
    """One device's line with its cells by column name."""

    def __init__(self, index: int, line: Line, names: list[str], cells: list[str]) -> None:
        self.index = index
        self.line = line
        self.cells = dict(zip(names, cells, strict=True))

    def get(self, *names: str) -> str:
        return next((self.cells[name] for name in names if self.cells.get(name)), "")

    def number(self, name: str) -> int | None:
        text = self.cells.get(name, "").split(" ", 1)[0]
        return int(text) if text.isdigit() and len(text) < 10 else None

    @property
    def is_narrow(self) -> bool | None:
        width, full = self.number("pcie.link.width.current"), self.number("pcie.link.width.max")
        return None if width is None or not full else width < full


def read_inventory_csv(sheet: Sheet) -> None:
    """Consume device listings in CSV form; other lines stay."""
    node = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
    us = sheet.label.captured_at_us
    when = When() if us is None else When(us, us, "record", node)
    names: list[str] = []
    rows: list[_Row] = []
    for index, line in list(sheet.free()):
        if header := _header(line.text):
            _add(sheet, rows, node, when)
            names, rows = header, []
            sheet.consume(index)
            continue
        cells = _cells(line.text)
        if names and len(cells) == len(names):
            rows.append(_Row(index, line, names, cells))
        elif names:
            _add(sheet, rows, node, when)
            names, rows = [], []
    _add(sheet, rows, node, when)


def _cells(text: str) -> list[str]:
    return [cell.strip()[:MAX_CELL] for cell in text.split(",", MAX_COLUMNS)]


def _header(text: str) -> list[str]:
    """Return the column names of a header that says which device a row is about, or nothing."""
    if not _HEADER.match(text):
        return []
    names = [cell.split(" [", 1)[0] for cell in _cells(text)]
    is_header = len(set(names)) == len(names) and not _IDENTITY.isdisjoint(names)
    return names if is_header and len(names) > 1 else []


def _add(sheet: Sheet, rows: list[_Row], node: str, when: When) -> None:
    known = [row.is_narrow for row in rows if row.is_narrow is not None]
    single_out = 0 < 2 * known.count(True) < len(known)
    for row in rows:
        index = row.number("index")
        pci = row.get("pci.bus_id", "gpu_bus_id")
        pci = pci if _PCI.match(pci) else ""
        uuid = row.get("uuid", "gpu_uuid")
        entity = Entity(node=node, gpu_index=index, gpu_pci=pci, gpu_uuid=uuid)
        values: dict[str, Any] = {"node": node, "index": index, "pci": pci, "uuid": uuid}
        sheet.consume(row.index)
        for state, message in _states(row, single_out):
            facts = {**values, "name": row.get("name", "gpu_name"), "state": state}
            sheet.add(
                "inventory.gpu", {**facts, "message": message}, lines=[row.line], when=when,
                entity=entity,
            )  # fmt: skip


def _states(row: _Row, single_out: bool) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if bad := next((cell for cell in row.cells.values() if _BAD.search(cell)), ""):
        found.append(("unhealthy", bad.strip("[]")))
    if single_out and row.is_narrow:
        width = row.get("pcie.link.width.current")
        full = row.get("pcie.link.width.max")
        found.append(("narrow_link", f"PCIe width x{width} of x{full}"))
    text = row.get(*_REASONS)
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text):
        bits = int(text, 16)
        found.extend(("slowed", reason) for bit, reason in _SLOWED if bits & bit)
    return found or [("listed", "")]
