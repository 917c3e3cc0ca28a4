"""The job's own values in a site's patterns, selectors and paths."""

import re
from collections.abc import Callable
from typing import Final

from connectors.protocol import ConnectorError
from engine.model.workload import Workload

_NAME: Final = re.compile(
    r"\{(job_id|array_job_id|user|name|attempt|namespace|cluster|partition)\}"
)
_SAFE: Final = re.compile(r"^[A-Za-z0-9._+@=,:-]{1,256}$")
"""What a value may hold inside a path: no separator, no wildcard, no template of its own."""


class TemplateValueError(ConnectorError):
    """The job has no usable value for what a template names."""


def fill(template: str, workload: Workload, *, safe: bool = False) -> str:
    """Return `template` with the job's values; raises `TemplateValueError`.

    With `safe` a value that could change a path's or pattern's meaning is refused: users choose
    their jobs' names.
    """
    return _NAME.sub(_value_of(workload, safe=safe), template)


def _value_of(workload: Workload, *, safe: bool) -> Callable[[re.Match[str]], str]:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        found = (
            re.split(r"[_+]", workload.job_id, maxsplit=1)[0]
            if name == "array_job_id"
            else getattr(workload, name)
        )
        if found is None:
            raise TemplateValueError(f"{match[0]}: the job's {name} is not known")
        text = str(found)
        if safe and (not _SAFE.match(text) or text in (".", "..")):
            raise TemplateValueError(f"{match[0]}: the job's {name} is no safe part of a path")
        return text

    return value
