"""`payclient rejudge`: judge the answers of a run again, by other rules."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from payclient._atomic import AtomicFiles
from payclient._escape import plural
from payclient.cli._options import JudgingOptions, OutputOptions
from payclient.cli._reconciliation import about_of, note_about, write_again
from payclient.cli._sources import settling_within
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines
from payclient.errors import ConfigurationError
from payclient.reconcile import Journal, JournalError, Rules, judge_again, with_profiles
from payclient.reconcile.journal import copy_journal
from payclient.reconcile.nights import with_decisions
from payclient.reconcile.rules import changed_rules, with_reading_of
from payclient.report import JOURNAL, JudgedAgain, carry_log, read_log

EXAMPLES = """
```console
$ payclient rejudge reports/2026-11-21 --rules new-rules.toml --out reports/2026-11-21-b
$ payclient rejudge reports/2026-11-21 --grace 2d --out reports/2026-11-21-grace
```

Exit status: that of `payclient reconcile` for these rows.
"""


def rejudge(
    folder: Path,
    /,
    *,
    out: Path,
    judging: JudgingOptions = JudgingOptions(),  # noqa: B008  frozen
    settles_within: str | None = None,
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Judge the answers of a run again, by other rules, without a network or a key.

    The report in OUT says that it is a second judgement, of which run, and which rules changed. A difference that only
    the new rules see has no second lookup, so its row is unresolved; `payclient reconcile` with the same ledger and
    rules and the same OUT takes the missing lookups. Nothing in FOLDER is changed.

    Args:
        folder: Folder of the run.
        out: Folder for the second judgement; not FOLDER.
        judging: Judging differences. Default: the rules of the run.
        settles_within: Time that a payment may take to be in the statement, such as `3d` or `2 business days`.
            Overrides the rules.
        output: Output and exit status.
        streams: Streams of the process.
    """
    settling_within(judging.rules(), settles_within)  # refuses what cannot be used before anything is copied
    if out.resolve().is_relative_to(folder.resolve()):
        message = f"--out must be another folder than {folder}, which is not changed"
        raise ConfigurationError(message)
    if not (folder / JOURNAL).exists():
        message = f"there is no journal at {folder / JOURNAL}"
        raise JournalError(message)
    remarks = _judge_copy(folder, out, judging, settles_within)
    carry_log(folder, out)
    worst = Worst()
    summary, judged_by = write_again(out, worst.add, output=output)
    verdict, *rest = verdict_lines(summary, worst, rules=judged_by)
    compare = shlex.join(("payclient", "diff", str(folder), str(out)))
    next_step = f"Next: {compare}, which says row by row what the rules changed"
    output.write([verdict, *remarks, *rest, "", f"Report: {out / 'report.html'}", next_step], out, streams)
    return output.exit_status(summary)


def _judge_copy(folder: Path, out: Path, judging: JudgingOptions, settles_within: str | None) -> list[str]:
    """Put a copy of the journal of *folder* into *out*, judged again; return what there is to say about it."""
    with AtomicFiles(out, [JOURNAL]) as new:
        for beside in out.glob(f"{escape(new.path(JOURNAL).name)}?*"):  # of a killed process with the same id
            beside.unlink()
        copy_journal(folder / JOURNAL, new.binary(JOURNAL))
        with Journal(new.path(JOURNAL), must_exist=True) as journal:
            about = about_of(journal)
            wanted = settling_within(judging.rules(without_file=about.rules), settles_within)
            rules = with_decisions(with_profiles(with_reading_of(wanted, about.rules)), read_log(folder).decisions)
            unconfirmed = judge_again(journal, rules=rules)
            again = JudgedAgain(
                folder=folder.resolve().name,
                run=about.run,
                rules_fingerprint=about.rules.fingerprint,
                changed_rules=changed_rules(about.rules, rules),
            )
            note_about(journal, attrs.evolve(about, rules=rules, judged_again=again))
        if not _is_there(out, again, rules):
            new.commit()
    kept = [name for name in changed_rules(wanted, rules) if name != "accepted"]
    return [again.sentence, *_remarks(kept, unconfirmed, out)]


def _is_there(out: Path, again: JudgedAgain, rules: Rules) -> bool:
    """Return whether *out* holds the same second judgement, perhaps with more lookups; refuse any other run."""
    if not (out / JOURNAL).exists():
        return False
    with Journal(out / JOURNAL, must_exist=True) as journal:
        about = about_of(journal)
    if (about.judged_again, about.rules.fingerprint) == (again, rules.fingerprint):
        return True
    message = f"there is another run in {out}; choose another folder with --out"
    raise JournalError(message)


def _remarks(kept: Sequence[str], unconfirmed: int, out: Path) -> Iterator[str]:
    if kept:
        names = " and ".join(kept)
        yield f"Not changed: {names}, because reading the ledger or the answers in another way takes a new run."
    if unconfirmed:
        which = f"{plural(unconfirmed, 'reference')} {'needs' if unconfirmed == 1 else 'need'}"
        yield (
            f"By these rules {which} a second lookup, which the run did not take, and cannot be judged without it. "
            f"To take it: payclient reconcile with the same files and rules, and --out {shlex.quote(str(out))}"
        )
