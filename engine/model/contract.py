"""The two base models of every contract document.

Their errors do not quote what was given: a refused event may hold a secret, and errors are logged.
A model is built when it is first used: a function starts with what it needs of sixty.
"""

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A document that others may extend: unknown optional keys are ignored when read."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        hide_input_in_errors=True,
        defer_build=True,
    )


class StrictDocument(BaseModel):
    """A document that people write for us (rules, site files): unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,
        defer_build=True,
    )


class UnknownMajorVersionError(ValueError):
    """A document of a major version that this release cannot read."""


def require_major(found: str, supported: int, what: str) -> None:
    """Raise `UnknownMajorVersionError` unless `found` ("1.0", "1") has major `supported`."""
    major = found.split(".", 1)[0]
    if major != str(supported):
        raise UnknownMajorVersionError(
            f"{what} has schema version {found!r}; this release reads {supported}.x. "
            f"Upgrade rootrank or ask the sender for version {supported}."
        )
