"""The scoreboard: what rootrank says of every labelled bundle, by set and by kind.

    python scripts/accuracy.py [FOLDER ...] [--rules rules] [--write docs/accuracy.md] [--json]

Without folders: tests/{corpus,lab/captures,blind,heldout*}, as far as they exist; any folder
of bundles with `expected.yaml` may be given. Each bundle counts once, as the worst that is true:

* falsely accused: a node, rank, GPU or domain is named that the labels do not allow
* wrong: a domain is stated that the labels do not allow, or a cause is stated for an open case
* hedged: the labels name a cause and the verdict leaves it open (unknown, ambiguous, insufficient)
* right: the rest
"""

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.score import OPEN_QUALITY, Score, run  # noqa: E402

WORDS = ("right", "hedged", "wrong", "falsely accused")
HELD_OUT = ("heldout", *(f"heldout{number}" for number in range(2, 9)))
SETS = tuple(ROOT / "tests" / name for name in ("corpus", "lab/captures", "blind", *HELD_OUT))
# As printed on 2026-11-30, before anything was mended with the set in view.
FIRST_SCORES = (
    "| first score | bundles | right | hedged | wrong | falsely accused | whom |",
    "|---|--:|--:|--:|--:|--:|---|",
    "| tests/heldout | 32 | 25 | 4 |  | 3 | ranks twice, the application once |",
    "| tests/heldout2 | 48 | 41 | 4 |  | 3 | the application three times |",
    "| tests/heldout3 | 50 | 40 | 8 | 1 | 1 | the application once |",
    "| tests/heldout4 | 46 | 39 | 1 |  | 6 | host twice, storage, a rank twice, a GPU |",
    "| tests/heldout5 | 40 | 26 | 4 | 1 | 9 | ranks four times, scheduler and application twice, "
    "network |",
    "| tests/heldout6 | 40 | 27 | 9 | 1 | 3 | the application, a rank, the scheduler |",
    "| tests/heldout7 | 32 | 24 | 3 | 3 | 2 | a rank, network |",
    "| tests/heldout8 | 32 | 17 | 9 | 2 | 4 | host, scheduler, the application, ranks twice |",
)
RUN_NUMBER = re.compile(r"-\d+$")


@dataclass
class Outcome:
    """One bundle's place on the scoreboard."""

    folder: str
    name: str
    kind: str
    word: str
    got: str
    want: str
    note: str = ""


def judge(score: Score) -> str:
    """Return which of the four words a score is."""
    if score.error:
        return "wrong"
    if score.falsely_accused:
        return "falsely accused"
    if score.right:
        _, domain, level, _ = score.got.split("/", 3)
        wanted = score.want.split("/")
        left_open = domain == "unknown" or level in OPEN_QUALITY
        is_closed_case = wanted[1] not in ("unknown", "none") and wanted[2] not in OPEN_QUALITY
        return "hedged" if left_open and is_closed_case else "right"
    _, domain, level, _ = score.got.split("/", 3)
    return "hedged" if domain == "unknown" or level in OPEN_QUALITY else "wrong"


def kind_of(folder: Path, domain: str) -> str:
    """Return a capture's kind of fault; other bundles are grouped by their labelled domain."""
    truth = folder / "truth.yaml"
    if truth.exists():
        return str(yaml.safe_load(truth.read_text(encoding="utf-8"))["kind"])
    return domain


def collect(folders: list[Path], rules: Path | None) -> list[Outcome]:
    """Score all bundles of all folders."""
    outcomes = []
    for folder in folders:
        for score in run(folder, rules=rules, only="", is_bare=False):
            wanted = yaml.safe_load((folder / score.name / "expected.yaml").read_text("utf-8"))
            note = ", ".join(score.falsely_accused) or score.error
            kind = kind_of(folder / score.name, str(wanted.get("domain")))
            outcomes.append(
                Outcome(_label(folder), score.name, kind, judge(score), score.got, score.want, note)
            )
    return outcomes


def _label(folder: Path) -> str:
    resolved = folder.resolve()
    return str(resolved.relative_to(ROOT)) if resolved.is_relative_to(ROOT) else folder.name


def row(name: str, outcomes: list[Outcome]) -> str:
    """Return one row of a table."""
    counts = Counter(each.word for each in outcomes)
    cells = [str(counts[word] or "") for word in WORDS]
    return f"| {name} | {len(outcomes)} | " + " | ".join(cells) + " |"


def table(title: str, groups: dict[str, list[Outcome]]) -> list[str]:
    """Return a table with one row a group."""
    head = f"| {title} | bundles | " + " | ".join(WORDS) + " |"
    rule = "|---|" + "--:|" * (len(WORDS) + 1)
    return [head, rule, *(row(name, groups[name]) for name in groups)]


def grouped(outcomes: list[Outcome], key: str) -> dict[str, list[Outcome]]:
    """Group by a field, in order of the name."""
    groups: dict[str, list[Outcome]] = {}
    for each in sorted(outcomes, key=lambda outcome: str(getattr(outcome, key))):
        groups.setdefault(str(getattr(each, key)), []).append(each)
    return groups


def page(outcomes: list[Outcome]) -> str:
    """Return docs/accuracy.md."""
    sets = grouped(outcomes, "folder")
    lines = [
        "# Accuracy", "",
        "Written by `python scripts/accuracy.py --write docs/accuracy.md`; do not edit. The same",
        "command takes any folder of bundles with `expected.yaml`. How it is measured:", "",
        "- **falsely accused**: a node, rank, GPU or domain is named that the labels do not allow.",
        "- **wrong**: a domain that the labels do not allow, or a cause stated for an open case.",
        "- **hedged**: the labels name a cause, the verdict leaves it open.",
        "- **right**: everything else. A bundle counts once, as the worst that is true of it.", "",
        "The lab's labels come from what its injector did ([lab.md](lab.md)); the corpus and the",
        "blind bundles are re-created from public reports and labelled by hand from their",
        "evidence. The corpus was in view while rules were written. The blind bundles and the lab",
        "were not, but rules have been mended since with their results in view: these are",
        "regression figures, not a forecast. The lab's faults need no GPU.", "",
        "The held-out sets are by authors who had seen neither rules nor engine, and were scored",
        "once before anything was mended with them in view. Those first scores are what to expect",
        "on unseen cases; the table below shows what became of them.", "", *FIRST_SCORES, "",
        *table("set", sets), "",
    ]  # fmt: skip
    for folder, members in sets.items():
        by = "kind" if "lab" in folder else "labelled domain"
        lines += [f"## {folder}", "", *table(by, grouped(members, "kind")), ""]
        missed = [each for each in members if each.word in ("wrong", "falsely accused")]
        if missed:
            lines += ["Not right:", ""]
            lines += [f"- `{e.name}`: {e.word}; got {e.got}, want {e.want} {e.note}".rstrip()
                      for e in missed]  # fmt: skip
            lines += [""]
    return "\n".join(lines)


def main() -> int:
    """Run from the command line; always 0, because a score is no finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--rules", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folders = options.folders or [each for each in SETS if each.is_dir()]
    outcomes = collect(folders, options.rules)
    if options.json:
        print(json.dumps([vars(each) for each in outcomes]))
        return 0
    print("\n".join(table("set", grouped(outcomes, "folder"))))
    for each in outcomes:
        if each.word in ("wrong", "falsely accused"):
            print(
                f"{each.word}: {each.folder}/{each.name}: "
                f"got {each.got}, want {each.want} {each.note}"
            )
    if options.write:
        options.write.write_text(page(outcomes) + "", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
