"""Label and field selectors, as an API server reads them in lists and watches."""

import re
from collections.abc import Callable
from typing import Any

FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase",
          "involvedObject.name", "involvedObject.kind", "type", "reason")  # fmt: skip


def selector(query: dict[str, str]) -> Callable[[dict[str, Any]], bool] | None:
    """Return what the label and field selectors let through; None for what a server refuses."""
    checks: list[Callable[[dict[str, Any]], bool]] = []
    for text, is_field in (
        (query.get("labelSelector", ""), False), (query.get("fieldSelector", ""), True),
    ):  # fmt: skip
        for part in filter(None, re.split(r",(?![^(]*\))", text)):
            match = re.fullmatch(r"([\w./-]+?) ?(?:(!=|==?) ?([\w./-]*)|in \(([^)]*)\))?", part)
            if match is None or (is_field and (match[1] not in FIELDS or match[3] is None)):
                return None
            name, values = match[1], (match[4] or match[3] or "").replace(" ", "").split(",")
            is_any, is_not = match[2] is None and match[4] is None, match[2] == "!="
            checks.append(_check(name, values, is_field=is_field, is_any=is_any, is_not=is_not))
    return lambda item: all(check(item) for check in checks)


def _check(
    name: str, values: list[str], *, is_field: bool, is_any: bool, is_not: bool
) -> Callable[[dict[str, Any]], bool]:
    def read(item: dict[str, Any]) -> Any:
        if not is_field:
            return item["metadata"].get("labels", {}).get(name)
        for part in name.split("."):
            item = item.get(part, {}) if isinstance(item, dict) else {}
        return item or ""

    if is_any:
        return lambda item: read(item) is not None
    return lambda item: (read(item) in values) != is_not
