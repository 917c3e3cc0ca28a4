"""Explanations of rules with their placeholders filled from the evidence."""

import re
from typing import Final

from engine.entities import Directory
from engine.episodes import Episode

_PLACE: Final = re.compile(r"\{([a-z_]{1,40})\}")
_UNKNOWN: Final = "(unknown)"
_RANK: Final = re.compile(r"\b([Rr])ank \{(rank|peer_rank)\}")
_NAMELESS: Final = {"R": "A rank that no line names", "r": "a rank that no line names"}
MAX_VALUE: Final = 200


def explain(episode: Episode, directory: Directory) -> str:
    """Return the explanation of an episode's symptom in plain words."""
    meaning = episode.meaning
    text = " ".join((meaning.explanation or meaning.about or meaning.title).split())
    if "{" not in text:
        return text
    values = _values(episode, directory)
    text = _RANK.sub(lambda match: match[0] if values.get(match[2]) else _NAMELESS[match[1]], text)
    return _PLACE.sub(lambda match: values.get(match[1]) or _UNKNOWN, text)


def _values(episode: Episode, directory: Directory) -> dict[str, str]:
    values: dict[str, str] = {}
    observations = sorted(
        episode.observations,
        key=lambda o: (o.first.origin.uri, o.first.origin.byte_offset, o.first.text),
    )
    for observation in observations[:64]:
        for name, value in observation.fields.items():
            if value:
                values.setdefault(name, value[:MAX_VALUE])
    subject = episode.subject
    own = {
        "node": subject.node,
        "rank": ", ".join(str(rank) for rank in subject.ranks[:8]),
        "gpu": _gpu_name(subject.gpu, directory),
        "pod": subject.pod,
        "nic": subject.nic,
        "link": subject.link,
        "switch": subject.switch,
        "filesystem": subject.filesystem,
        "pid": "" if subject.pid is None else str(subject.pid),
        "count": str(episode.count),
    }
    values.update({name: value for name, value in own.items() if value})
    return values


def _gpu_name(key: str, directory: Directory) -> str:
    gpu = directory.gpus.get(key)
    if gpu is None:
        return key.partition("|")[2].lstrip("#")
    names = [] if gpu.index is None else [str(gpu.index)]
    if gpu.pci:
        names.append(gpu.pci if not names else f"({gpu.pci})")
    return " ".join(names) or gpu.uuid or gpu.serial
