"""Output of tools that describe a node: nvidia-smi, ibstat, lspci, df, dcgmi.

Only what reads as a state is taken. Details and faults of `nvidia-smi` also stay text, because
ordinary signatures know their wording better.
"""

import re
from typing import Any

from engine.extract.formats.jsontext import JsonValue, as_dict, as_items
from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import Entity, When

# GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)
_LIST = re.compile(r"^GPU (\d{1,3}): (.{1,100}?) \(UUID: (GPU-[0-9a-fA-F-]{36})\)")
# |   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |
_TABLE = re.compile(
    r"^\|\s{1,4}(\d{1,3})\s{1,4}(\S.{0,40}?)\s{1,30}(?:On|Off|N/A)?\s{0,4}\| "
    r"{0,2}([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d) "
)
_TABLE_ECC = re.compile(r"\|\s+(\S.{0,30}?)\s*\|\s*$")
# GPU 00000000:07:00.0
_QUERY_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_QUERY_FIELD = re.compile(r"^ {1,24}([A-Z][\w ()/.-]{0,60}?) {1,60}: (.{0,200})$")
_BAD_VALUE = re.compile(
    r"ERR!|Unknown Error|GPU requires reset|GPU is lost|Reset Required|\bYes\b|\bFailed\b|\bFault"
    r"|^(?:Drain and )?Reset$|\bReboot\b"
)
_UNHEALTHY_QUERY = frozenset({
    "Pending", "Pending Page Blacklist", "Remapping Failure Occurred", "GPU Reset Status",
    "Reset Required", "GPU Recovery Action", "Drain and Reset Recommended", "State", "Status",
    "Fabric State",
})  # fmt: skip
# /proc/driver/nvidia/gpus/*/information, as nvidia-bug-report copies it
_INFORMATION = re.compile(r"^(Model|GPU UUID|Bus Location|Device Minor):\s{1,12}(\S.{0,100})$")
_UUID = re.compile(r"^GPU-[0-9a-fA-F-]{36}$")
_CA = re.compile(r"^CA '([\w.-]{1,40})'")
_PORT = re.compile(r"^\s{0,8}Port (\d{1,3}):")
_PORT_FIELD = re.compile(r"^\s{1,16}(State|Physical state|Rate|Link layer): (.{1,60})$")
# 		LnkSta:	Speed 8GT/s (downgraded), Width x8 (downgraded)
_PCI_DEVICE = re.compile(r"^([0-9a-fA-F]{4}:)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d) (.{1,120})$")
_LNKSTA = re.compile(r"^\s{1,16}LnkSta:\s{1,4}(.{1,200})$")
_DF_HEAD = re.compile(r"^Filesystem +\S+ +Used +Avail\S* +(?:Use%|Capacity|IUse%) +Mounted on")
_DF_ROW = re.compile(r"^(\S{1,255}) +\S+ +\S+ +\S+ +(\d{1,3})% +(/\S{0,255})$")


def read_inventory(sheet: Sheet, documents: list[JsonValue]) -> None:
    """Consume what describes GPUs, links and disks; other lines stay."""
    _Inventory(sheet).read()
    for document in documents:
        if _is_dcgm(document.value):
            sheet.consume(*document.indexes)
            _add_dcgm(sheet, document)


class _Inventory:
    """Reads line by line, remembering which GPU, adapter and device the lines speak of."""

    def __init__(self, sheet: Sheet):
        self.sheet = sheet
        self.node = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
        us = sheet.label.captured_at_us
        self.when = When() if us is None else When(us, us, "record", self.node)
        self.gpu = ""
        self.adapter = ""
        self.port = ""
        self.device = ""
        self.in_df = False
        self.information: dict[str, str] = {}

    def read(self) -> None:
        for index, line in list(self.sheet.free()):
            if self._gpu(line) or self._link(line) or self._disk(line) or self._bug_report(line):
                self.sheet.consume(index)

    def _add_gpu(self, line: Line, *, entity: Entity, **values: Any) -> None:
        self.sheet.add(
            "inventory.gpu",
            {"node": self.node, **values},
            lines=[line],
            when=self.when,
            entity=entity,
        )

    def _gpu(self, line: Line) -> bool:
        if match := _LIST.match(line.text):
            index, name, uuid = int(match[1]), match[2], match[3]
            entity = Entity(node=self.node, gpu_index=index, gpu_uuid=uuid)
            self._add_gpu(line, entity=entity, index=index, uuid=uuid, name=name, state="listed")
            return True
        if match := _TABLE.match(line.text):
            index, pci = int(match[1]), match[3]
            bad = _BAD_VALUE.search(line.text)
            entity = Entity(node=self.node, gpu_index=index, gpu_pci=pci)
            ecc = _TABLE_ECC.search(line.text)
            message = f"uncorrected ecc {ecc[1]}" if ecc and ecc[1].isdigit() else None
            state = bad[0] if bad else "listed"
            self._add_gpu(
                line, entity=entity, index=index, pci=pci, name=match[2], state=state,
                message=message if ecc and ecc[1] != "0" else None,
            )  # fmt: skip
            return not bad
        if match := _QUERY_GPU.match(line.text):
            self.gpu = match[1]
            self._add_gpu(
                line, entity=Entity(node=self.node, gpu_pci=self.gpu), pci=self.gpu, state="listed"
            )
            return True
        if self.gpu and (match := _QUERY_FIELD.match(line.text)):
            is_state = match[1].strip() in _UNHEALTHY_QUERY and _BAD_VALUE.search(match[2])
            if is_state or "ERR!" in match[2] or "Unknown Error" in match[2]:
                self._add_gpu(
                    line, entity=Entity(node=self.node, gpu_pci=self.gpu), pci=self.gpu,
                    state="unhealthy", message=f"{match[1].strip()}: {match[2].strip()}",
                )  # fmt: skip
        return False

    def _link(self, line: Line) -> bool:
        if match := _CA.match(line.text):
            self.adapter, self.port = match[1], ""
            return True
        if self.adapter and (match := _PORT.match(line.text)):
            self.port = match[1]
            return True
        if self.adapter and self.port and (match := _PORT_FIELD.match(line.text)):
            if match[1] in ("State", "Physical state"):
                self._add_link(line, device=self.adapter, port=self.port, state=match[2].strip())
            return True
        if match := _PCI_DEVICE.match(line.text):
            self.device = (match[1] or "0000:") + match[2]
            return False
        if self.device and (match := _LNKSTA.match(line.text)):
            state = "downgraded" if "downgraded" in match[1] else "ok"
            self._add_link(line, device=self.device, state=state, message=match[1].strip())
            return True
        return False

    def _add_link(self, line: Line, **values: Any) -> None:
        self.sheet.add(
            "inventory.link",
            {"node": self.node, **values},
            lines=[line],
            when=self.when,
            entity=Entity(node=self.node, nic=str(values["device"])),
        )

    def _bug_report(self, line: Line) -> bool:
        """Take which device is which; one that was never initialised has a UUID of `?`."""
        match = _INFORMATION.match(line.text)
        if not match:
            return False
        name, value = match[1], match[2].strip()
        if name == "Model":
            self.information = {}
        self.information[name] = value
        if name == "Device Minor":
            known, self.information = self.information, {}
            pci = known.get("Bus Location", "")
            uuid = known.get("GPU UUID", "")
            uuid = uuid if _UUID.match(uuid) else ""
            entity = Entity(node=self.node, gpu_pci=pci, gpu_uuid=uuid)
            self._add_gpu(
                line, entity=entity, pci=pci, uuid=uuid, name=known.get("Model"), state="listed"
            )
        return True

    def _disk(self, line: Line) -> bool:
        if _DF_HEAD.match(line.text):
            self.in_df = True
            return True
        match = _DF_ROW.match(line.text) if self.in_df else None
        if not match:
            self.in_df = self.in_df and bool(line.text.strip())
            return False
        self.sheet.add(
            "inventory.disk",
            {
                "node": self.node,
                "filesystem": match[1],
                "mount": match[3],
                "used_percent": match[2],
            },
            lines=[line],
            when=self.when,
            entity=Entity(node=self.node, filesystem=match[3]),
        )
        return True


def _is_dcgm(value: Any) -> bool:
    return isinstance(value, dict) and (
        "DCGM Diagnostic" in value or "DCGM GPU Diagnostic" in value or "DCGM Health" in value
    )


def _add_dcgm(sheet: Sheet, document: JsonValue) -> None:
    """Take failing results of `dcgmi diag -j`: one per test and GPU."""
    node = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
    body = as_dict(next(iter(document.value.values())))
    for category in as_items(body.get("test_categories")):
        for test in as_items(as_dict(category).get("tests")):
            for result in as_items(as_dict(test).get("results")):
                row = as_dict(result)
                if str(row.get("status", "")).lower() != "fail":
                    continue
                lines, excerpt = document.span("status", row.get("status"))
                warnings = row.get("warnings") or row.get("info") or ""
                for number in _gpus_of(row):
                    sheet.add(
                        "inventory.gpu",
                        {
                            "node": node,
                            "index": number,
                            "state": "diag_fail",
                            "message": f"{as_dict(test).get('name')}: {_warning(warnings)}",
                        },
                        lines=lines,
                        entity=Entity(node=node, gpu_index=number),
                        excerpt=excerpt,
                    )


def _gpus_of(row: dict[str, Any]) -> list[int | None]:
    """Return the indexes that a result is about: DCGM 2 and 3 list them, DCGM 4 names entities."""
    if str(row.get("entity_group", "GPU")).upper() != "GPU":
        return [None]
    told = row.get("gpu_id", row.get("gpu_ids", row.get("entity_id")))
    numbers = [each.strip() for each in str(told).split(",")]
    found: list[int | None] = [int(each) for each in numbers if each.isdigit() and len(each) < 4]
    return found or [None]


def _warning(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(str(as_dict(each).get("warning", each)) for each in value)
    return str(value)[:500]
