"""`rootrank rules`: check, test, write, compare, lock and compile the rules."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.extract.scanner import Scanner, build_scanner
from engine.model.vocabulary import DOMAINS, SOURCES
from engine.rulebook.artifact import encode_artifact
from engine.rulebook.book import Rulebook
from engine.rulebook.cases import RuleCase, read_cases
from engine.rulebook.catalogue import ENGINE_SYMPTOMS
from engine.rulebook.check import check
from engine.rulebook.load import (
    CASES_SUFFIX,
    LoadedRule,
    read_rules,
    rule_files,
)
from engine.rulebook.lock import LOCK_NAME, check_lock, decode_lock, encode_lock, lock_of
from engine.rulebook.problem import Problem, RulesError, suggest
from engine.rulebook.propose import propose
from engine.rulebook.shipped import compile_folder, load_shipped
from engine.rulebook.site import read_site, site_files
from engine.rulebook.trial import read_text
from functions.adapters.automata import FolderShelf
from functions.adapters.rulebook import AUTOMATA
from rootrank.commands.rule_diff import diff_command
from rootrank.commands.rule_docs import docs_command
from rootrank.commands.rule_options import (
    count,
    loaded_book,
    loaded_rules,
    print_problems,
    rules_option,
    site_option,
)
from rootrank.rule_cases import CaseResult, run_cases
from rootrank.rule_coverage import CaseWatch, cover

if TYPE_CHECKING:
    from rootrank.rule_samples import SampleRun

_MIN_LINE = 6
RULE_ID_PATTERN = r"[a-z][a-z0-9_]*(/[a-z0-9][a-z0-9_]*)+"


@click.group(name="rules")
def rules_command() -> None:
    """Write, check and test rules."""


rules_command.add_command(diff_command)
rules_command.add_command(docs_command)


@rules_command.command(name="check")
@click.argument("paths", nargs=-1)
@click.option("--quiet", is_flag=True, help="Leave warnings out.")
@rules_option
@site_option
@click.pass_context
def check_command(
    context: click.Context, paths: tuple[str, ...], *, folder: Path, site: Path | None, quiet: bool
) -> None:
    """Report everything that is wrong with the rules, at file:line:column.

    With PATHS (files, folders or rule ids below the rules folder) only what stands there is
    reported; the whole set is still read, because rules refer to each other. With --site-rules
    the site's files are checked against the release.
    """
    top = site or folder
    try:
        files = rule_files(folder) if site is None else site_files(site)
    except RulesError as error:
        raise click.UsageError(str(error)) from None
    problems = _found_wrong(files) if site is None else _wrong_at_site(files, loaded_book(folder))
    shown = [problem for problem in problems if _is_below(problem.path, paths, top)]
    errors = [problem for problem in shown if problem.severity == "error"]
    print_problems(errors if quiet else shown, top)
    warnings = len(shown) - len(errors)
    click.echo(
        f"{len(files)} rule files: {count(len(errors), 'error')}, {count(warnings, 'warning')}",
        err=True,
    )
    if not files:
        click.echo(f"no rules in {top}", err=True)
    unknown = [
        name
        for name in paths
        if not Path(name).exists() and not any(_is_below(path, (name,), top) for path in files)
    ]
    for name in unknown:
        click.echo(f"{name}: no rule there, so nothing of it was checked", err=True)
    if errors or unknown or not files:
        context.exit(1)


def _found_wrong(files: dict[str, bytes]) -> list[Problem]:
    rules, problems = read_rules(files)
    return sorted([*problems, *check(rules)])


def _wrong_at_site(files: dict[str, bytes], base: Rulebook) -> list[Problem]:
    site = read_site(files, base)
    return sorted({*site.problems, *check(site.rules, base)})


@rules_command.command(name="test")
@click.argument("paths", nargs=-1)
@rules_option
@site_option
@click.pass_context
def test_command(
    context: click.Context, paths: tuple[str, ...], *, folder: Path, site: Path | None
) -> None:
    """Run the rules' samples through the collectors and their cases through the engine.

    With PATHS (files, folders or rule ids) only what stands there runs. Nothing at all to run is
    a failure. With --site-rules the site's own samples and cases run.
    """
    book = loaded_book(folder, site)
    top = site or folder
    rules = loaded_rules(folder) if site is None else list(_site_documents(site, folder))
    cases, problems = read_cases(top)
    problems += [problem for case in cases for problem in _unknown_symptoms(case, book)]
    if problems:
        raise click.UsageError("\n".join(f"{top.name}/{problem}" for problem in problems))
    scanner = build_scanner(book)
    chosen = [case for case in cases if _is_chosen(case, paths, top)]
    watch = CaseWatch(book, scanner)
    results = run_cases(chosen, attribute_bundle=watch.attribute)
    tried = [rule for rule in rules if _is_below(rule.path, paths, top)]
    samples = _run_samples(tried, book, scanner)
    failed = [result for result in results if not result.passed]
    print_problems(samples.problems, top)
    for result in failed:
        _print_failure(result, top)
    click.echo(
        f"{count(len(results), 'case')}: {len(results) - len(failed)} passed, "
        f"{len(failed)} failed; "
        f"{count(samples.texts, 'sample')}: {len(samples.problems)} wrong",
        err=True,
    )
    all_rules = rules if site is None else [*loaded_rules(folder), *rules]
    click.echo(str(cover(tried, all_rules, watch=watch)), err=True)
    if not results and not samples.texts:
        click.echo("nothing ran, which proves nothing: that is a failure", err=True)
    if failed or samples.problems or not (results or samples.texts):
        context.exit(1)


def _unknown_symptoms(case: RuleCase, book: Rulebook) -> list[Problem]:
    """A symptom that no rule defines is always absent, so a case that says so cannot fail."""
    known = book.symptoms.keys() | ENGINE_SYMPTOMS
    expect = case.document.expect
    named = (*expect.symptoms.present, *expect.symptoms.absent, *expect.symptoms.roles)
    return [
        Problem(case.path, case.line, 1, f"no rule defines symptom {name!r}{suggest(name, known)}")
        for name in dict.fromkeys((*named, *expect.primary, *(expect.root_causes or ())))
        if name not in known
    ]


def _site_documents(site: Path, folder: Path) -> Iterable[LoadedRule]:
    return read_site(site_files(site), loaded_book(folder)).rules


def _run_samples(rules: Iterable[LoadedRule], book: Rulebook, scanner: Scanner) -> "SampleRun":
    from rootrank.rule_samples import run_samples  # noqa: PLC0415  only `test` collects

    return run_samples(rules, book=book, scanner=scanner)


def _is_chosen(case: RuleCase, paths: tuple[str, ...], folder: Path) -> bool:
    return _is_below(case.path, paths, folder) or _is_below(f"{case.rule}.yaml", paths, folder)


def _print_failure(result: CaseResult, folder: Path) -> None:
    case = result.case
    click.echo(f"{folder.name}/{case.path}:{case.line}: {case.document.name!r} failed")
    if result.error is not None:
        click.echo(f"    {result.error}")
    for difference in result.differences:
        click.echo(f"    {difference}")


@rules_command.command(name="lock")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; report what drifted.")
@click.option("--rewrite", is_flag=True, help="Lock as it is, without asking for version bumps.")
@rules_option
@click.pass_context
def lock_command(context: click.Context, *, folder: Path, only_check: bool, rewrite: bool) -> None:
    """Record each rule's version and content in rules.lock.

    A rule that changed without a new version is a finding, and then nothing is written.
    """
    rules = loaded_rules(folder)
    path = folder / LOCK_NAME
    try:
        lock = decode_lock(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    problems = check_lock(rules, {} if rewrite else lock)
    refused = [p for p in problems if only_check or p.severity == "error"]
    for problem in refused:
        click.echo(f"{folder.name}/{problem}")
    if refused:
        context.exit(1)
    if not only_check:
        path.write_text(encode_lock(lock_of(rules)), encoding="utf-8")
    click.echo(f"{count(len(rules), 'rule')} in {path}", err=True)


@rules_command.command(name="compile")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True,
    help="Where the artifact goes, such as rules/compiled.json.",
)  # fmt: skip
@rules_option
@click.pass_context
def compile_command(context: click.Context, *, folder: Path, output: Path) -> None:
    """Check the rules and write them as the one canonical artifact that a release ships."""
    try:
        artifact = compile_folder(folder)
    except RulesError as error:
        print_problems(error.problems, folder)
        context.exit(1)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(encode_artifact(artifact.book, artifact.source_digest))
    book = artifact.book
    scanner = build_scanner(book, shelf=FolderShelf(output.parent / AUTOMATA))
    scanner.prepare()
    click.echo(
        f"{count(len(book.signatures), 'signature')}, {count(len(book.symptoms), 'symptom')}, "
        f"{count(len(book.causes), 'cause')}, {count(len(book.metrics), 'metric')} "
        f"of version {book.version} in {output}",
        err=True,
    )


@rules_command.command(name="new")
@click.argument("line")
@click.option("--id", "rule_id", default="new/rule", help="The rule's id, such as gpu/bus_loss.")
@click.option("--domain", type=click.Choice(DOMAINS), default="unknown")
@click.option("--source", type=click.Choice(SOURCES), default=None)
@click.option("--write", is_flag=True, help="Write both files below the rules folder.")
@rules_option
def new_command(
    line: str, *, rule_id: str, domain: str, source: str | None, folder: Path, write: bool
) -> None:
    """Propose a rule and its cases for one log LINE.

    What varies (numbers, addresses, paths) is generalised and captured; the TODOs are yours.
    """
    if not re.fullmatch(RULE_ID_PATTERN, rule_id):
        raise click.UsageError(f"--id {rule_id!r}: write <domain>/<name> in lower case")
    if len(line.strip()) < _MIN_LINE:
        raise click.UsageError("the line is too short to tell it from others")
    proposal = propose(line, rule_id=rule_id, domain=domain, source=source)
    files = {
        folder / f"{rule_id}.yaml": proposal.rule,
        folder / f"{rule_id}{CASES_SUFFIX}": proposal.cases,
    }
    for label in _already_matching(line, folder):
        click.echo(f"note: {label} already matches this line", err=True)
    for path, text in files.items():
        if not write:
            click.echo(f"# {path}\n{text}")
            continue
        if path.exists():
            raise click.UsageError(f"{path} exists; choose another --id")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path}", err=True)
    if not write:
        click.echo("nothing was written: give --id <domain>/<name> and --write", err=True)
        return
    click.echo(
        f"next: fill in the TODOs, set title, role and tier, then rootrank rules check {rule_id}",
        err=True,
    )


def _already_matching(line: str, folder: Path) -> list[str]:
    try:
        signatures = load_shipped(folder).signatures
    except RulesError:
        return []
    return [
        f"{signature.rule}#{signature.name} ({signature.symptom})"
        for signature in signatures
        if read_text(signature, line) is not None
    ]


def _is_below(path: str, wanted: tuple[str, ...], folder: Path) -> bool:
    if not wanted:
        return True
    relative = [_relative(name, folder) for name in wanted]
    return any(
        path in (name, f"{name}.yaml") or path.startswith(f"{name.rstrip('/')}/")
        for name in relative
    )


def _relative(name: str, folder: Path) -> str:
    full = Path(name).resolve()
    if full.is_relative_to(folder.resolve()):
        return full.relative_to(folder.resolve()).as_posix()
    return name
