"""Writes log lines that a framework prints while nothing is wrong, from its own Python sources.

The healthy corpus (tests/healthy) needs what real programs say at debug, info and warning level.
This reads a package's modules, takes the message of every logging call, fills the placeholders
with plain values and puts the program's own prefix before it:

    python scripts/harvest_messages.py --form deepspeed --limit 150 SITE_PACKAGES/deepspeed

Lines whose wording tells of an error go to --noisy FILE, the others to --quiet FILE.
"""

import argparse
import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

LEVELS = {
    "debug": "DEBUG", "info": "INFO", "warning": "WARNING", "warn": "WARNING",
    "warning_once": "WARNING", "info_once": "INFO", "warning_advice": "WARNING",
    "rank_zero_info": "INFO", "rank_zero_warn": "WARNING", "rank_zero_debug": "DEBUG",
    "log_dist": "INFO", "print_rank_0": "PRINT", "log_on_each_rank": "INFO", "print": "PRINT",
    "termlog": "PRINT", "log_single_rank": "INFO", "print_rank_last": "PRINT",
}  # fmt: skip
METHODS = {"debug", "info", "warning", "warn", "warning_once", "info_once", "warning_advice"}
SKIPPED = re.compile(r"(^|/)(tests?|testing|examples?|benchmarks?|_vendor|vendor)(/|$)")
TROUBLE = re.compile(
    r"(?i)\b(fail\w*|errors?|exception|crash\w*|abort\w*|dead|died|kill\w*|timed? ?out|timeout|"
    r"corrupt\w*|invalid|lost|unreachable|hang|hung|nan|inf|overflow|interrupt\w*|cannot|could not|"
    r"unable|denied|missing|not found|refused|unexpected\w*|preempt\w*|terminat\w*|signal)\b"
)
PERCENT = re.compile(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[sdrifgxeu]")
BRACES = re.compile(r"\{[^{}]*\}")
WORDS = (
    (re.compile(r"(?i)rank"), "3"), (re.compile(r"(?i)path|file|dir"), "/data/run/a-17"),
    (re.compile(r"(?i)name|key|type|cls|class|dtype"), "layer_norm"),
    (re.compile(r"(?i)host|node|addr|ip"), "node-003"), (re.compile(r"(?i)url|uri"), "s3://bucket/a"),
    (re.compile(r"(?i)time|sec|elapsed|dur"), "12.41"), (re.compile(r"(?i)version"), "2.4.1"),
    (re.compile(r"(?i)^e$|err|exc"), "none"), (re.compile(r"(?i)device|gpu"), "cuda:3"),
)  # fmt: skip
START = datetime(2025, 1, 10, 8, 0, 30)


@dataclass(frozen=True, order=True)
class Message:
    """One logging call: where it stands and what it says."""

    file: str
    line: int
    level: str
    text: str
    function: str


def value_of(node: ast.expr) -> str:
    """A plausible value for what a placeholder names."""
    name = ast.unparse(node)
    return next((word for pattern, word in WORDS if pattern.search(name)), "16")


def text_of(node: ast.expr, rest: list[ast.expr]) -> str | None:
    """The message of a call's first argument, its placeholders filled; None where it has none."""
    match node:
        case ast.Constant(value=str() as text):
            values = [value_of(item) for item in rest]
            return PERCENT.sub(lambda _: values.pop(0) if values else "16", text)
        case ast.JoinedStr():
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else value_of(part.value)
                for part in node.values
                if isinstance(part, ast.Constant | ast.FormattedValue)
            )
        case ast.BinOp(op=ast.Add()):
            left, right = text_of(node.left, []), text_of(node.right, [])
            return None if left is None or right is None else left + right
        case ast.BinOp(op=ast.Mod()):
            inner = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
            return text_of(node.left, inner)
        case ast.Call(func=ast.Attribute(attr="format", value=inner_node)):
            text = text_of(inner_node, [])
            return None if text is None else BRACES.sub("16", text)
        case _:
            return None


def level_of(call: ast.Call) -> str | None:
    """The level of a logging call; None for any other call."""
    match call.func:
        case ast.Name(id=name):
            return LEVELS.get(name) if name not in METHODS else None
        case ast.Attribute(attr=name, value=owner):
            said = ast.unparse(owner).lower()
            if said == "warnings":
                return "USERWARNING" if name == "warn" else None
            return LEVELS.get(name) if name in METHODS and "log" in said else None
        case _:
            return None


def messages(folder: Path) -> Iterator[Message]:
    """Every message of the modules below `folder`."""
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder.parent).as_posix()
        if SKIPPED.search(relative):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            level = level_of(node)
            text = text_of(node.args[0], list(node.args[1:])) if level else None
            if level and text:
                text = re.sub(r"\s+", " ", text).strip()
                if len(text.split()) >= 3 and 15 <= len(text) <= 300 and text.isascii():
                    yield Message(relative, node.lineno, level, text, "run")


def line_of(form: str, message: Message, when: datetime) -> str:
    """The message as the program of `form` prints it."""
    path, name = message.file, Path(message.file).name
    stem = Path(message.file).stem
    module = path.removesuffix(".py").replace("/", ".")
    comma = when.strftime("%Y-%m-%d %H:%M:%S,") + f"{when.microsecond // 1000:03d}"
    level = "INFO" if message.level == "PRINT" else message.level
    if message.level == "USERWARNING":
        where = f"/opt/conda/lib/python3.11/site-packages/{path}:{message.line}"
        return f"{where}: UserWarning: {message.text}"
    if message.level == "PRINT":
        return message.text
    short = when.strftime("%m%d %H:%M:%S.") + f"{when.microsecond:06d}"
    forms = {
        "torch": f"[rank3]:{level[0]}{short} 4021 site-packages/{path}:{message.line}] "
        f"{message.text}",
        "deepspeed": f"[{comma}] [{level}] [{name}:{message.line}:{message.function}] [Rank 0] "
        f"{message.text}",
        "transformers": f"[{level}|{name}:{message.line}] {comma} >> {message.text}",
        "accelerate": f"{when:%m/%d/%Y %H:%M:%S} - {level} - {module} - {message.text}",
        "lightning": message.text if level == "INFO" else f"{level}: {message.text}",
        "ray": f"{comma}\t{level} {name}:{message.line} -- {message.text}",
        "absl": f"{level[0]}{short}    4021 {name}:{message.line}] {message.text}",
        "nemo": f"[NeMo {level[0]} {when:%Y-%m-%d %H:%M:%S} {stem}:{message.line}] {message.text}",
        "composer": f"{comma}: rank3[4021][MainThread]: {level}: {module}: {message.text}",
        "wandb": f"wandb: {message.text}",
        "logging": f"{comma} - {module} - {level} - {message.text}",
        "megatron": f"{level}:{module}:{message.text}",
    }
    return forms[form]


def chosen(found: list[Message], limit: int) -> list[Message]:
    """`limit` different messages, spread over the package by their digest, in source order."""
    unique = {re.sub(r"\d+", "0", item.text): item for item in sorted(found, reverse=True)}
    ordered = sorted(
        unique.values(), key=lambda item: hashlib.sha256(item.text.encode()).hexdigest()
    )
    return sorted(ordered[:limit])


def main() -> None:
    """Append the lines of one package to the given files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--form", required=True)
    parser.add_argument("--limit", type=int, default=150)
    parser.add_argument("--quiet", type=Path, required=True)
    parser.add_argument("--noisy", type=Path, required=True)
    options = parser.parse_args()
    found = list(messages(options.folder))
    quiet = [item for item in found if not TROUBLE.search(item.text)]
    noisy = [item for item in found if TROUBLE.search(item.text)]
    for items, path, limit in (
        (quiet, options.quiet, options.limit), (noisy, options.noisy, options.limit // 3),
    ):  # fmt: skip
        with path.open("a", encoding="utf-8") as out:
            for number, item in enumerate(chosen(items, limit)):
                when = START + timedelta(seconds=17 * number, milliseconds=37 * number)
                out.write(line_of(options.form, item, when) + "\n")
    print(f"{options.folder.name}: {len(quiet)} quiet, {len(noisy)} noisy messages")


if __name__ == "__main__":
    main()
