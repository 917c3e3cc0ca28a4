"""Runs the fault lab: real failures with known causes, each kept as a bundle.

    python scripts/lab.py run [--kind K] [--core] [--runs N] [--seed N] [--out DIR] [--jobs N]
                               [--missing]
    python scripts/lab.py kinds
    python scripts/lab.py relabel [--out DIR]     # expected.yaml anew from truth.yaml

Needs root, network namespaces, a memory cgroup and `.venv-lab` with PyTorch for CPU (docs/lab.md).
"""

import argparse
import re
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lab.bundle import expected_of, write_bundle  # noqa: E402
from tests.lab.catalogue import KINDS, Kind  # noqa: E402
from tests.lab.machine import missing_needs  # noqa: E402
from tests.lab.run import PYTHON, Run  # noqa: E402

CAPTURES = ROOT / "tests" / "lab" / "captures"


def make_one(kind: Kind, index: int, *, seed: int, out: Path) -> str:
    """Make one run of a kind and its bundle; return what happened in a word or a line."""
    started = time.monotonic()
    try:
        with Run(kind.name, seed, index) as run:
            kind.make(run)
            problem = unexpected_end(kind, run)
            if not problem:
                write_bundle(run, kind, out / f"{kind.name}-{index + 1}")
    except Exception as error:  # noqa: BLE001 (one run must not end the lab)
        traceback.print_exc()
        problem = f"{type(error).__name__}: {str(error)[:200]}"
    return f"{problem or 'made'} ({time.monotonic() - started:.0f} s)"


def unexpected_end(kind: Kind, run: Run) -> str:
    """Say why a run is no capture of its kind: a fault that did not bite, a clean run that fell."""
    if kind.is_clean and run.state != "COMPLETED":
        return f"not made: a clean run ended {run.state} {run.exit_code}: {run.texts()[-600:]}"
    if not kind.is_clean and run.state == "COMPLETED":
        return "not made: the fault did not end the job"
    if run.truth.ended_by_lab and "cancelled" not in kind.label.also_terminal:
        return "not made: it did not end by itself"
    if kind.shows and not re.search(kind.shows, run.texts() + run.more_text):
        return f"not made: the logs do not show {kind.shows!r}: {run.texts()[-400:]}"
    return ""


def chosen(options: argparse.Namespace) -> list[Kind]:
    """Return the kinds that were asked for."""
    names = options.kind or list(KINDS)
    if unknown := [name for name in names if name not in KINDS]:
        raise SystemExit(f"no such kind: {', '.join(unknown)}; see `lab.py kinds`")
    return [KINDS[name] for name in names if KINDS[name].is_core or not options.core]


def run_all(options: argparse.Namespace) -> int:
    """Run the chosen kinds; 1 where a run could not be made."""
    if not PYTHON.exists():
        raise SystemExit(f"{PYTHON} is missing: see docs/lab.md")
    failed = 0
    work = []
    for kind in chosen(options):
        if missing := missing_needs(kind.needs):
            print(f"skipped {kind.name}: needs {', '.join(missing)}", flush=True)
            continue
        count = options.runs or (1 if options.core else kind.runs)
        work += [
            (kind, index)
            for index in range(count)
            if not (options.missing and (options.out / f"{kind.name}-{index + 1}").is_dir())
        ]
    work.sort(key=lambda pair: pair[1])  # each kind once before any kind twice
    started = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {
            pool.submit(make_one, kind, index, seed=options.seed, out=options.out): (kind, index)
            for kind, index in work
        }
        for future in as_completed(futures):
            kind, index = futures[future]
            failed += not future.result().startswith("made")
            print(f"{kind.name}-{index + 1}: {future.result()}", flush=True)
    print(f"{len(work) - failed} made, {failed} not, {time.monotonic() - started:.0f} s")
    return int(failed > 0)


def relabel(out: Path) -> int:
    """Write expected.yaml of every capture anew from its truth and the table of kinds."""
    for path in sorted(out.glob("*/truth.yaml")):
        truth = yaml.safe_load(path.read_text(encoding="utf-8"))
        expected = expected_of(truth, KINDS[truth["kind"]])
        text = yaml.safe_dump(expected, sort_keys=False, allow_unicode=True, width=100)
        (path.parent / "expected.yaml").write_text(text, encoding="utf-8")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--kind", action="append")
    run.add_argument("--core", action="store_true")
    run.add_argument("--runs", type=int, default=0, help="runs a kind (default: the kind's own)")
    run.add_argument("--missing", action="store_true", help="only what is not in --out yet")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--jobs", type=int, default=3)
    run.add_argument("--out", type=Path, default=ROOT / ".rootrank" / "lab")
    commands.add_parser("kinds")
    again = commands.add_parser("relabel")
    again.add_argument("--out", type=Path, default=CAPTURES)
    return parser


def main() -> int:
    """Run from the command line."""
    options = build_parser().parse_args()
    if options.command == "run":
        return run_all(options)
    if options.command == "relabel":
        return relabel(options.out)
    for kind in KINDS.values():
        print(f"{'core' if kind.is_core else '    '} {kind.name:34} {kind.about}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
