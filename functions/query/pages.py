"""The pages: Jinja templates over typed data. No script; what is shown is cleaned and escaped."""

from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engine.model.hostlist import compact_hostlist
from functions.query import addresses, plain
from functions.query.symptom_names import entity_name

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Of every answer. There is no script, so none is allowed; nothing may be kept or framed."""

_GLYPHS: Final = {
    "complete": "✓", "empty": "∅", "partial": "◐", "filtered": "◐", "sampled": "◐",
    "unverified": "?", "lost": "✕", "failed": "✕", "not_configured": "–",
    "ok": "✓", "error": "✕", "skipped": "–",
}  # fmt: skip
_MEANINGS: Final = {
    "complete": "seen up to a mark past the window's end",
    "partial": "seen in part",
    "filtered": "only lines that matched a filter were fetched",
    "sampled": "only samples were fetched",
    "empty": "the stream exists and held nothing",
    "unverified": "nothing came, and nothing proves that anything would",
    "lost": "gone with its node; never will come",
    "failed": "could not be read",
    "not_configured": "nobody looked",
}


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    environment.filters |= {
        "words": plain.words,
        "clock": plain.clock,
        "counted": plain.counted,
        "short": plain.short,
        "size": plain.size,
        "entity": entity_name,
        "hosts": lambda names: compact_hostlist(tuple(names)),
    }
    environment.globals |= {
        "attempt_address": addresses.attempt_address,
        "node_address": addresses.node_address,
        "gpu_address": addresses.gpu_address,
        "list_address": addresses.list_address,
        "between": plain.between,
        "glyphs": _GLYPHS,
        "meanings": _MEANINGS,
    }
    return environment


def _cleaned(value: Any) -> Any:
    """Clean every text that a template prints: forgetting to is not possible."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return plain.clean(value)
    return value
