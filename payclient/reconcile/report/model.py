"""Internal: the model of a report, built once: metadata, figures, words, the rows that people read, and outputs."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from heapq import nlargest
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen

from payclient._shared.escape import plural, quote
from payclient.reconcile._atomic import AtomicFiles
from payclient.reconcile._codec import as_json
from payclient.reconcile._judgement.causes import Settlement, SettlementStep, StateTotal, TieOut
from payclient.reconcile._judgement.codes import Code, Difference, Severity, Step
from payclient.reconcile._judgement.compare import expiry_rule, reff_key
from payclient.reconcile._judgement.decisions import Decisions
from payclient.reconcile._judgement.findings import BreakState, Bucket, Finding, Row
from payclient.reconcile._judgement.records import BreakChange, ReferenceRecord
from payclient.reconcile._judgement.rules import Rules, rules_as_json
from payclient.reconcile._judgement.sides import Payout
from payclient.reconcile._judgement.summary import EXIT_STATUSES, About, Condition, OpenFindings, Summary, Total
from payclient.reconcile.report import wording as words
from payclient.reconcile.report.wording import in_words, when

_Item = TypeVar("_Item")

# The run


def left_out(about: About) -> Mapping[str, tuple[str, ...]]:
    """Return the parts of the files that are not in the figures, with reasons: sentences by side."""
    by_rule = {"ledger": about.ignored_lines, "statement": (about.statement.totals,) if about.statement else ()}
    return {
        side: (
            *(f"the column {quote(name)}, which is not used" for name in file.ignored_columns),
            *map(str, file.excluded),
            *filter(None, map(in_words, by_rule[side])),
        )
        for side, file in about.files.items()
    }


def run_name(about: About, started_at: datetime) -> str:
    """Return the name of the run that *about* describes. It stays when the run is resumed, or judged again alike."""
    parts = about.ledger_sha256, about.base_url, about.environment, about.key_fingerprint, about.rules.fingerprint
    fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:8]}"


def about_as_json(about: About) -> dict[str, Any]:
    """Return *about* in plain values, without `payclient_version`: another version may write the report."""
    return {name: value for name, value in as_json(about).items() if name != "payclient_version"}


def open_findings_as_json(found: OpenFindings) -> dict[str, Any]:
    return {name: value for name, value in as_json(found).items() if name not in ("by_state", "news")}


# The rows that people read


@define
class Top(Generic[_Item]):
    """The highest-ranking items of any number, each key once. Equal ones in order. Memory grows only with the room."""

    _room: int
    _rank: Callable[[_Item], tuple[int, ...]]
    count: int = field(init=False, default=0)
    items: dict[Hashable, _Item] = field(init=False, factory=dict)

    def add(self, item: _Item, key: Hashable = None) -> None:
        self.count += 1
        self.items[self.count if key is None else key] = item
        if len(self.items) > 2 * self._room:
            self.items = dict(self._ranked())

    def _ranked(self) -> list[tuple[Hashable, _Item]]:
        return nlargest(self._room, self.items.items(), key=lambda each: self._rank(each[1]))

    @property
    def kept(self) -> tuple[_Item, ...]:
        return tuple(item for _, item in self._ranked())


@frozen(kw_only=True)
class BreakItem:
    """A finding about a reference, however many rows have it, or about all payments of an invoice paid twice."""

    row: Row
    finding: Finding
    references: tuple[str, ...]
    at_stake: int


def invoice_of(row: Row) -> Hashable:
    return reff_key(row.transaction.merchant_reff) if row.transaction else None


def _break_rank(item: BreakItem) -> tuple[int, ...]:
    return item.row.is_material, item.finding.severity, item.at_stake


Kind: TypeAlias = tuple[Severity | None, Code | Bucket]
"""Breaks by severity and leading finding. Other rows with findings by the leading one alone. Otherwise the bucket."""

MAX_NEWS, MAX_OTHERS = 10, 5
_MAX_KINDS = 5


@define
class Group(Top[Row]):
    """The rows of one kind, the first of them kept, and the money of all."""

    total: Total = field(init=False, default=Total())

    def add(self, item: Row, key: Hashable = None) -> None:
        super().add(item, key)
        self.total += Total.of(item)


@define
class Worst:
    """The breaks that are shown first, and the rows of each kind. Memory grows with *room*, not with rows."""

    _room: int = 60
    news: Top[BreakItem] = field(init=False, factory=lambda: Top(MAX_NEWS, _break_rank))
    others: Top[BreakItem] = field(init=False, factory=lambda: Top(MAX_OTHERS, _break_rank))
    other_rows: int = field(init=False, default=0)
    groups: defaultdict[Kind, Group] = field(init=False)
    gone: Top[BreakChange] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.groups = defaultdict(lambda: Group(self._room, lambda row: row.rank))
        self.gone = Top(self._room, lambda change: (change.now.severity, change.now.at_stake))

    def add(self, row: Row) -> None:
        """Add *row*, unless it matched or is open without a finding."""
        kind: Kind = None, row.bucket
        if row.primary is not None and row.bucket not in (Bucket.UNRESOLVED, Bucket.REJECTED):
            kind = row.severity if row.bucket is Bucket.BREAK else None, row.primary.code
        if row.bucket is Bucket.BREAK:
            self.other_rows += row.history is None or not row.history.state.is_news
            for finding in row.findings:
                if finding.is_decisive:
                    self._add_break(row, finding)
        if kind[1] not in (Bucket.MATCHED, Bucket.OPEN):
            self.groups[kind].add(row)

    def _add_break(self, row: Row, finding: Finding) -> None:
        """Add a finding, or add the row to its key. The row that is shown has more at stake."""
        top = self.news if finding.history is not None and finding.history.state.is_news else self.others
        stake, reference = row.at_stake if finding.at_stake is None else finding.at_stake, row.reference or ""
        key = finding.code, invoice_of(row) if finding.code is Code.PAID_TWICE and row.transaction else reference
        item, known = BreakItem(row=row, finding=finding, references=(reference,), at_stake=stake), top.items.get(key)
        if known is not None:
            references = tuple(dict.fromkeys((*known.references, reference)))
            item = evolve(item if stake > known.at_stake else known, references=references)
        top.add(item, key)

    def add_gone(self, change: BreakChange) -> None:
        if not change.is_old:
            self.gone.add(change)

    @property
    def references(self) -> list[str]:
        return [each.row.reference for each in (*self.news.kept, *self.others.kept) if each.row.reference]

    def kinds(self) -> Iterator[tuple[str, Total]]:
        """Yield the rows and the money of each kind of break, the most severe first. Together they are all breaks."""
        groups = self.groups.items()
        breaks = [(severity, code, group.total) for (severity, code), group in groups if severity is not None]
        breaks.sort(key=lambda each: (-each[0], -each[2].rows))
        totals: dict[str, Total] = {}
        for place, (_, code, total) in enumerate(breaks):
            label = code.value if place < _MAX_KINDS or len(breaks) == _MAX_KINDS + 1 else "other kinds"
            totals[label] = totals.get(label, Total()) + total
        yield from totals.items()


# The report

RUN_TERM = "Run"
"""The line with the name of the run. It shows that a work list belongs to this run."""

_NOT_RECORDED = "not recorded"
_SAME_MERCHANT = "in the previous run, or in a part of this one. The canary is known to each."
_FROM_LEDGER = "Only references in the ledger were looked up. Payments missing from the ledger cannot appear here."
_BOTH_WAYS = (
    "Only references in the ledger or the statement were looked up: from the ledger to the service, from the statement "
    "to the service, and from the service to the statement. Payments missing from both cannot appear here."
)


@frozen
class Fact:
    """A line of the blocks *This run* and *To sign*."""

    term: str
    values: tuple[str, ...]
    is_code: bool = False


def _fact(term: str, *values: str) -> Fact:
    return Fact(term, tuple(filter(None, values)))


def _code(term: str, value: str | None, missing: str = _NOT_RECORDED) -> Fact:
    return Fact(term, (value or missing,), bool(value))


@frozen
class BridgeLine:
    """One line of the bridge: a step, or a total."""

    label: str
    meaning: str
    amount: int
    step: Difference[Step] | Difference[SettlementStep] | None = None


def _bridge(first: BridgeLine, bridge: TieOut | Settlement, last: BridgeLine) -> tuple[BridgeLine, ...]:
    """Return both totals, the steps between them, and the residual, in the order of every report."""
    steps = (
        BridgeLine(in_words(each.step).capitalize(), each.step.meaning, each.amount, each) for each in bridge.steps
    )
    return first, *steps, last, BridgeLine("Residual", "what the steps leave unexplained", bridge.residual)


@frozen
class Report:
    """
    A run in figures and words.

    Attributes:
        summary: The result.
        about: The run.
        worst: The rows that people read.
    """

    summary: Summary
    about: About = field(factory=About)
    worst: Worst = field(factory=Worst)

    @cached_property
    def says(self) -> str:
        """The scope and the result, in one sentence."""
        summary, since, settlement = self.summary, self.summary.since, self.summary.settlement
        if summary.conditions[0] is Condition.NOTHING_READ:
            return "No row was read, so none was compared."
        what = "amounts not compared; " if summary.compared.are_amounts_left_out else ""
        what += f"{self.compared} of " if self.compared else ""
        what += plural(summary.lines, "ledger row")
        if summary.lines != summary.rows:
            what += f", summed to {plural(summary.rows, 'payment')}"
        if settlement is not None and settlement.not_in_ledger:
            what += f" and {plural(settlement.not_in_ledger, 'reference')} that only the statement has"
        counts = [self._counted(bucket, total.rows) for bucket, total in summary.buckets.items() if total.rows]
        said = [", ".join(counts) or "none", *self._statement_problems()]
        if since is not None:
            what += f" and {since.carried_rows:,} carried from {in_words(since.previous)}" * bool(since.carried_rows)
            said += [self.movement, *[f"{plural(since.reused.rows, 'answer')} reused"] * bool(since.reused.rows)]
        return f"{what}: {'; '.join([*said, *words.not_compared(summary.compared)])}."

    def _counted(self, bucket: Bucket, rows: int) -> str:
        if bucket is Bucket.BREAK:
            return plural(rows, "break")
        tolerated = self.summary.tolerated if bucket is Bucket.MATCHED else 0
        return f"{rows:,} {bucket}" + (f" ({tolerated:,} within tolerance or accepted)" if tolerated else "")

    def _statement_problems(self) -> Iterator[str]:
        """Yield the problems of the statement as a whole. Breaks are counted as rows."""
        settlement = self.summary.settlement
        if settlement and settlement.payout_difference:
            yield f"the payout is {_off(settlement.payout_difference)}"
        if settlement and settlement.statement.rejected_lines:
            yield f"{plural(settlement.statement.rejected_lines, 'line')} of the statement cannot be used"

    @cached_property
    def advice(self) -> str:
        """The advice, for the condition that decides the verdict."""
        advice = words.ADVICE.get(self.summary.conditions[0])
        return words.columns_advice(self.summary.compared) if advice is None else advice

    @cached_property
    def compared(self) -> str:
        """The compared fields. Empty without any."""
        compared = self.summary.compared
        most = max(compared.fields.values(), default=0)
        found = {name: rows for name, rows in compared.fields.items() if rows}
        names = [name if rows == most else f"{name} ({plural(rows, 'row')})" for name, rows in found.items()]
        if compared.assumed_paid and not any(each.words for each in compared.unused):  # one of them may be a status
            names.insert(1 if compared.fields["amount"] else 0, "status (assumed paid)")
        return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)

    @cached_property
    def completeness(self) -> str:
        """The limits of the report, so that a report without findings does not suggest more than it checked."""
        said, since = [_FROM_LEDGER if self.summary.settlement is None else _BOTH_WAYS], self.summary.since
        said += [] if since is None else [in_words(since.ledger), words.reused_sentence(since)]
        return " ".join(filter(None, said))

    @cached_property
    def remark(self) -> str:
        """The fields that were not compared, in a few sentences. Empty without any."""
        compared = self.summary.compared
        told = {"amount": compared.are_amounts_left_out, "status": compared.status_left_out or compared.assumed_paid}
        names = [name for name, rows in compared.fields.items() if not rows and not told.get(name)]
        why = {"no column of the ledger is used for it": False, "no row with it was answered": True}
        said = [
            f"Not compared, because {reason}: {', '.join(found)}."
            for reason, is_stated in why.items()
            if (found := [name for name in names if (name in compared.stated) is is_stated])
        ]
        return " ".join([*words.large_remarks(compared), *said])

    @cached_property
    def caution(self) -> str:
        """The remark next to the verdict: amounts or statuses not compared, and ignored columns."""
        return " ".join([*words.large_remarks(self.summary.compared), *words.ignored(self.summary.compared)])

    @cached_property
    def movement(self) -> str:
        """The roll-forward of the number of findings, and those with another amount or word."""
        found = self.summary.open_findings
        unknown, changed = found.by_state[BreakState.NOT_KNOWN].count, found.changed
        opening = f"{found.opening.count:,} + {found.new.count:,} new + {found.reopened.count:,} reopened"
        said = f"open findings: {opening} - {found.resolved.count:,} resolved = {found.closing.count:,}"
        said += f" ({unknown:,} not known)" if unknown else ""
        return said + (f", changed ({changed.count:,}): {changed.amount:+,} at stake" if changed.count else "")

    @cached_property
    def news(self) -> int:
        """The number of findings that are new, changed or reopened."""
        return sum(total.count for state, total in self.summary.open_findings.by_state.items() if state.is_news)

    @cached_property
    def bridge(self) -> tuple[BridgeLine, ...]:
        """The bridge from the ledger to the service."""
        tie_out = self.summary.tie_out
        first = BridgeLine("Ledger, paid", "sum of what the ledger has as paid", tie_out.ledger_paid_total)
        meaning = "what the service has as paid, each reference once"
        return _bridge(first, tie_out, BridgeLine("Service, paid", meaning, tie_out.service_paid_total))

    @cached_property
    def statement_bridge(self) -> tuple[BridgeLine, ...]:
        """The bridge from the service to the statement. Empty without one."""
        if (settlement := self.summary.settlement) is None:
            return ()
        first = BridgeLine("Service, paid", "where the bridge from the ledger ends", settlement.service_paid_total)
        meaning = f"sum of what was paid{' out' * settlement.statement.is_net}, over all its lines"
        return _bridge(first, settlement, BridgeLine("Statement", meaning, settlement.statement.total))

    @cached_property
    def payouts(self) -> tuple[Payout, ...]:
        """The payouts of the statement, and their sum if there are several."""
        found = self.summary.settlement.statement.payouts if self.summary.settlement else ()
        return (*found, *([sum(found, Payout(name="All"))] if found[1:] else ()))

    @cached_property
    def payout_sentence(self) -> str:
        """The money that reached the bank, and the statement's total. Empty if it was not given."""
        settlement = self.summary.settlement
        if settlement is None or settlement.payout is None:
            return ""
        total, off = settlement.statement.total, settlement.payout_difference
        what = f"{_off(off)} of {total:,}" if off else "the statement's total"
        return f"The payout of {settlement.payout:,} is {what}."

    @cached_property
    def states(self) -> Mapping[str, StateTotal]:
        """The money by status."""
        return {state or "not known": total for state, total in self.summary.tie_out.states.items()}

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """The run metadata in the order of the page. A missing value is shown as such."""
        summary, about, since = self.summary, self.about, self.summary.since
        first, last = when(summary.first_observed_at), when(summary.last_observed_at)
        status = summary.exit_status()
        facts = (
            _code(RUN_TERM, about.run),
            _fact("Judged again", in_words(about.judged_again)),
            *self._files(),
            _fact("Compared", self.compared, self.remark),
            _code("Service", about.base_url),
            _fact("Environment", about.environment or _NOT_RECORDED),
            _code("Key fingerprint", about.key_fingerprint),
            _fact("Other keys", ", ".join(about.other_keys) and f"{', '.join(about.other_keys)}: {_SAME_MERCHANT}"),
            _code("Canary", about.canary, "none was given"),
            _fact("Answers came", f"{first} to {last} UTC" if first else "none came"),
            _fact("Reused answers", words.reused_sentence(since) if since else ""),
            _fact("Changed during the run", f"{plural(summary.changed_during_run, 'row')}; judged by the last answer"),
            *_rules(about.rules),
            _fact("Marked corrected, still different", *map(in_words, summary.still_there)),
            _fact("Acceptances to look at", *map(in_words, summary.acceptances)),
            _fact("Leakage by payment method", *map(in_words, summary.leakage)),
            _fact("Ended early", about.ended_by),
            _fact("Exit status", f"{status}: {EXIT_STATUSES[status]}"),
            _fact("Written by", f"payclient {about.payclient_version}"),
        )
        return tuple(fact for fact in facts if fact.values)

    def _files(self) -> Iterator[Fact]:
        if (ledger := self.about.ledger) is None:
            yield _fact("Ledger", "not a file that payclient read")
        else:
            yield _fact("Ledger", ledger.name or "standard input")
            yield _fact("Size", f"{plural(ledger.size_bytes, 'byte')}, read as {ledger.format}")
            yield Fact("SHA-256", (ledger.sha256,), is_code=True)
            yield _fact("Columns used", _columns(ledger.columns))
        if (side := self.about.statement) is not None:
            file, size = side.file, f"{plural(side.totals.lines, 'line')}, {plural(side.file.size_bytes, 'byte')}"
            yield _fact("Statement", f"{file.name}: {size}, read as {file.format}")
            yield Fact("SHA-256 of the statement", (file.sha256,), is_code=True)
            yield _fact("Columns of the statement", _columns(file.columns))

    @cached_property
    def to_sign(self) -> tuple[Fact, ...]:
        """The facts to sign: the period, the parts left out and the reasons, the rules, and the open findings."""
        summary, about, since, least = self.summary, self.about, self.summary.since, self.about.rules.material_from
        warnings = {
            side: [each for each in file.warnings if each not in map(str, file.excluded)]
            for side, file in about.files.items()
        }
        changed: tuple[str, ...] = ("no previous run to compare them with",)
        if since is not None:
            same = f"the same as in the previous run, of {in_words(since.previous)}"
            changed = words.rules_sentences(since) or (same,)
        material = "" if least is None else f"{plural(summary.material, 'break')} with at least {least:,} at stake"
        facts = (
            _fact("Period of the ledger", in_words(summary.period)),
            *(_fact(f"Left out of the {side}", *(said or ("nothing",))) for side, said in left_out(about).items()),
            *(_fact(f"Warnings about the {side}", *said) for side, said in warnings.items()),
            _fact("Rules", *changed),
            _fact("Materiality", material),
            _fact("Open findings", words.at_stake_sentence(summary.open_findings)),
            _fact("Opening balance", words.origin_sentence(since.previous) if since else ""),
        )
        return tuple(fact for fact in facts if fact.values)


def _off(difference: int) -> str:
    return f"{abs(difference):,} {'more' if difference > 0 else 'less'} than the statement's total"


def _columns(columns: Mapping[str, str]) -> str:
    used = (name if name == header else f"{name} from {header!r}" for name, header in columns.items())
    return ", ".join(used) or "none"


def _rules(rules: Rules) -> Iterator[Fact]:
    plain = rules_as_json(rules)
    yield _fact("Expiry", expiry_rule(rules.time_zone))
    yield _fact("Tolerances", *(_listed(plain["tolerances"]) or ("none",)))
    if rules.grace:
        yield _fact("Grace", f"rows younger than {plain['grace']} may still be on their way")
    if rules.counts_business_days:
        days = f"Monday to Friday, without {plural(len(rules.calendar.holidays), 'listed holiday')}"
        yield _fact("Business days", f"{days}; in the time zone {plain['time_zone']}")
    yield _fact("Status words", *(f"{word} means {status}" for word, status in plain["statuses"].items()))
    yield _fact("Messages that mean not found", *rules.not_found_messages)
    yield _fact("Fee schedule", *_listed(plain["fees"]))
    if rules.accepted:
        yield _fact("Accepted differences", f"{len(rules.accepted):,}; each is marked where it occurs")
    yield _code("Fingerprint of the rules", rules.fingerprint)


def _listed(tables: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(
        f"{name}: {', '.join(f'{key} {value}' for key, value in table.items())}" for name, table in tables.items()
    )


# The outputs


@define(kw_only=True)
class Opening:
    """The parts of an output. Its `begin` adds the functions that it needs to be called, and closes at the end."""

    new: AtomicFiles
    names: Collection[str]  # files of this report, and others that stay next to them
    decisions: Decisions
    resources: ExitStack
    run: str = ""
    on_row: list[Callable[[Row], object]] = field(factory=list)
    on_gone: list[Callable[[BreakChange], object]] = field(factory=list)
    on_settled: list[Callable[[ReferenceRecord], object]] = field(factory=list)
    at_end: list[Callable[[Report], object]] = field(factory=list)


@frozen
class Output:
    """
    One file of a report.

    Attributes:
        name: Of the file.
        position: Among the files that the page lists, from 1. 0 for the page itself.
        holds: Its purpose, on the page.
        begin: The function that begins it, as `module:function` in this package.
        extra: The extra that the module needs.
        needs: `previous` or `statement` for a file that is written only with it.
    """

    name: str
    position: int
    holds: str
    begin: str
    extra: str = field(default="", kw_only=True)
    needs: str = field(default="", kw_only=True)


HISTORY = "history.jsonl"
PAYOUTS = "payouts.csv"
OUTPUTS = (
    Output("summary.json", 7, "the figures of this page, for programs", "_files:begin_summary"),
    Output("rows.jsonl", 5, "every row, with both sides in full", "rows:begin_rows"),
    Output("rows.parquet", 6, "every row as a table, for a database or a notebook", "_parquet:begin", extra="parquet"),
    Output("breaks.csv", 2, "every break, with both sides", "rows:begin_breaks"),
    Output("report.xlsx", 1, "a work list with room for owner, resolution and comment", "workbook:begin", extra="xlsx"),
    Output("report.html", 0, "", "_html:begin", extra="report"),
    Output(HISTORY, 4, "breaks of earlier runs that are gone, or not known", "rows:begin_history", needs="previous"),
    Output(PAYOUTS, 3, "the payments of each payout of the statement", "rows:begin_payouts", needs="statement"),
)
"""In the order of replacing the files."""

FORMATS: tuple[str, ...] = tuple(each.name for each in OUTPUTS if not each.needs)
"""The files of every report, among which a caller may choose."""
