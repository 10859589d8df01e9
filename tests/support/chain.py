"""
A small world, night after night: what ledger, service, statement and people have, and the runs that compare them.

A world is a list of nights, each with events in words, so that one that fails can be made shorter and told as a story.
"""

import asyncio
import csv
import io
import shutil
from datetime import date, timedelta

import attrs

from payclient import Transaction
from payclient.cli._options import EarlierRunOptions, OutputOptions, StatementOptions
from payclient.cli._process import Streams
from payclient.cli._reconcile import Reconciliation, _past_run
from payclient.reconcile import Accepted, Decision, Kinds, Rules
from payclient.reconcile._judgement.decisions import read_resolution
from payclient.reconcile.ledger import open_ledger
from payclient.reconcile.report.integrity import add_decisions
from support.nights import FIRST
from support.reconciling import DOWN, NOT_FOUND
from support.reports import rows_of, summary_of
from support.virtual_time import VirtualTimeLoop

COLUMNS = ("reference", "amount", "status", "created_at")
KINDS = Kinds(column="type", charge=("payment",), refund=("chargeback",))
MOVES = ("opening", "new", "reopened", "resolved", "changed", "closing", "payments")
LIMIT = 150
"""The largest difference that a rule accepts."""


@attrs.frozen
class Night:
    """Some days after the one before, with the events since then."""

    days: int
    events: tuple = ()


@attrs.frozen
class World:
    """
    All that happens.

    Attributes:
        ledger: `all` rows each night, those of the `day` (they may leave), or those of a `window` of three days.
        has_statement: A statement comes on most nights.
        may_settle: A payment may be missing in it for three days.
    """

    ledger: str
    has_statement: bool
    may_settle: bool
    nights: tuple

    @property
    def has_times(self):
        """Whether the ledger has a column with the time of creation."""
        return self.ledger == "window" or self.may_settle

    def __str__(self):
        said = f"ledger: {self.ledger}; statement: {self.has_statement}; settles within 3 days: {self.may_settle}"
        nights = (
            f"night {number}, {night.days} days later: {'; '.join(' '.join(map(str, each)) for each in night.events)}"
            for number, night in enumerate(self.nights)
        )
        return "\n".join((said, *nights))


@attrs.define
class Facts:
    """
    What there is on one night.

    Attributes:
        rows: By reference, amount (None if it cannot be read), word and number of its rows.
        service: By reference, word and amount.
        statement: By reference, kind and amount of its lines. None without a statement.
        stated: The same of all statements.
        decided: Night, reference and resolution of each decision before this night, or while its run was dead.
        accepted: By reference and code, the last day on which the rules accept up to `LIMIT`.
    """

    world: World
    today: object = FIRST
    rows: dict = attrs.field(factory=dict)
    created: dict = attrs.field(factory=dict)
    service: dict = attrs.field(factory=dict)
    failing: set = attrs.field(factory=set)
    statement: dict | None = None
    stated: dict = attrs.field(factory=dict)
    killed_at: int = 0
    decided: list = attrs.field(factory=list)
    decided_meanwhile: list = attrs.field(factory=list)
    accepted: dict = attrs.field(factory=dict)

    def pass_to(self, night):
        self.today += timedelta(days=night.days)
        self.failing, self.killed_at, self.decided, self.decided_meanwhile = set(), 0, [], []
        self.statement = {} if self.world.has_statement and ("no statement",) not in night.events else None
        if self.world.ledger == "day":
            self.rows = {}
        for event in night.events:
            self._take(event)
        if self.world.ledger == "window":
            start = self.today - timedelta(days=3)
            self.rows = {name: row for name, row in self.rows.items() if self.created[name] >= start}

    def _take(self, event):
        match event:
            case "row", name, amount, word:
                self.created.setdefault(name, self.today)
                self.rows[name] = amount, word, 1
            case "row twice", name if name in self.rows:
                self.rows[name] = *self.rows[name][:2], 2
            case "row unusable", name if name in self.rows:
                self.rows[name] = None, self.rows[name][1], 1
            case "row leaves", name:
                self.rows.pop(name, None)
            case "service has", name, amount, word:
                self.service[name] = word, amount
            case "service lost", name:
                self.service.pop(name, None)
            case "lookup fails", name:
                self.failing.add(name)
            case _:
                self._take_more(event)

    def _take_more(self, event):
        match event:
            case "line", name, kind, amount if self.statement is not None:
                before = dict(self.stated.get(name, ()))
                if kind not in before and (before or kind == "payment"):  # no chargeback before its payment
                    self.statement.setdefault(name, []).append((kind, amount))
                    self.stated.setdefault(name, []).append((kind, amount))
            case ("statement repeats",):
                self.statement = {name: list(lines) for name, lines in self.stated.items()}
            case "killed", lookups:
                self.killed_at = lookups
            case "decide", *decision:
                self.decided.append(decision)
            case "decide meanwhile", *decision:
                self.decided_meanwhile.append(decision)
            case "rules accept", name, code, until:
                self.accepted[name, code] = until


class KilledError(BaseException):
    """The process is gone."""


@attrs.define
class Client:
    """The service, asked without a network."""

    facts: Facts
    on_lookup: object = staticmethod(lambda: None)
    url = "http://service"
    key_fingerprint = "key"
    stats = None

    def with_options(self, **_):
        return self

    async def get_transaction(self, reference, *, fresh=False):
        self.on_lookup()
        if reference in self.facts.failing:
            raise DOWN
        always = dict.fromkeys(("CANARY", "BASE"), ("Canceled", 7))
        if (answer := (always | self.facts.service).get(reference)) is None:
            raise NOT_FOUND
        return Transaction(reference=reference, status=answer[0], amount=answer[1])


@attrs.define
class Chain:
    """The runs of one world in *root*, in folders of these names, with the decisions of a night in this order."""

    world: World
    root: object
    name: object = "n{}".format
    in_order: object = list
    facts: Facts = attrs.field(init=False, default=attrs.Factory(lambda self: Facts(self.world), takes_self=True))
    number: int = 0
    twin: object = None

    def folder(self, number):
        return self.root / self.name(number)

    def night(self, night):
        """Live through a night, and return its report."""
        facts, out, previous = self.facts, self.folder(self.number), self.folder(self.number - 1)
        previous, self.twin = previous if self.number else None, None
        facts.pass_to(night)
        self._decide(facts.decided, timedelta(hours=-1))
        if facts.killed_at:
            self._kill(out, previous)
            self.twin = None if facts.decided_meanwhile else self.root / "twin" / out.name
        self._decide(facts.decided_meanwhile, timedelta(hours=1))
        if self.twin is not None:
            self.run(self.twin, previous)
        self.number += 1
        return self.run(out, previous)

    def _decide(self, decisions, since):
        for number, (night, name, resolution) in self.in_order([*enumerate(decisions)]):
            folder, at = self.folder(night), self.facts.today + since + timedelta(seconds=number)
            what, until = read_resolution(resolution)
            words = {"owner": "Ana", "resolution": what, "until": until, "comment": f"at {at}", "by": "ana", "at": at}
            add_decisions(
                folder,
                [
                    Decision(run=summary_of(folder)["run"], reference=name, code=code, evidence="", **words, **sides)
                    for (of, code), sides in found_by(folder).items()
                    if of == name
                ],
            )

    def _kill(self, out, previous):
        """Let the process be gone at a lookup: what is on the disk then is all that is left."""
        left = iter(range(self.facts.killed_at))

        def on_lookup():
            if next(left, None) is None:
                shutil.copytree(out, self.root / "left")
                raise KilledError

        try:
            self.run(out, previous, on_lookup)
        except KilledError:
            shutil.rmtree(out)
            (self.root / "left").rename(out)

    def run(self, out, previous, on_lookup=lambda: None):
        """Do what `payclient reconcile` does, with a client and a clock of our own."""
        ledger, statement = self._files()
        streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=io.StringIO())
        earlier, other = EarlierRunOptions(previous=previous), StatementOptions(statement=statement)
        output = OutputOptions(quiet=True)
        past, rules = _past_run(earlier, out, output, streams), earlier.decided(other.declared(self._rules()), out)
        with open_ledger(ledger) as entries, other.open(rules, entries) as lines:
            job = Reconciliation(
                ledger=entries,
                statement=lines,
                out=out,
                client=Client(self.facts, on_lookup),
                rules=rules,
                canary="CANARY",
                previous=past,
                earlier=earlier,
                other=other,
                output=output,
                streams=streams,
                clock=lambda: self.facts.today,
            )
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                return runner.run(job.run())

    def _rules(self):
        words = {"largest_difference": LIMIT, "reason": "agreed", "owner": "Ana"}
        accepted = [
            Accepted(reference=name, code=code, expires=date.fromisoformat(until), **words)
            for (name, code), until in self.facts.accepted.items()
        ]
        rules = Rules(time_zone="UTC", may_leave=self.world.ledger == "day", accepted=accepted)
        within = {"settles_within": "3d"} if self.world.may_settle else {}
        return attrs.evolve(rules, statement=attrs.evolve(rules.statement, kind=KINDS, **within))

    def _files(self):
        facts, rows = self.facts, [("BASE", 7, "Canceled", f"{self.facts.today:%Y-%m-%d}")]
        for name, (amount, word, count) in facts.rows.items():
            rows += [(name, "1.5E+07" if amount is None else amount, word, f"{facts.created[name]:%Y-%m-%d}")] * count
        width = 4 if self.world.has_times else 3
        ledger = self._write("ledger.csv", [row[:width] for row in (COLUMNS, *rows)])
        if facts.statement is None:
            return ledger, None
        lines = [(kind, name, amount) for name, found in facts.statement.items() for kind, amount in found]
        return ledger, self._write("bank.csv", [("type", "reference", "amount"), *lines])

    def _write(self, name, rows):
        with (self.root / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return self.root / name


def found_by(folder):
    """Return by reference and code the sides and the money of all findings that count."""
    return {
        (row["reference"], each["code"]): {side: each[side] for side in ("ledger", "service", "at_stake")}
        for row in rows_of(folder)
        for each in row["findings"]
        if row["bucket"] == "break" and not each["waived"] and each["severity"] != "info"
    }


def told_by(folder, report):
    """Return what a report says of each reference, and in all."""
    rows = [(row, row["reference"], row["bucket"]) for row in rows_of(folder) if row["reference"] != "BASE"]
    findings = [(name, bucket, each) for row, name, bucket in rows for each in row["findings"]]
    has_memory = (folder / "history.jsonl").exists()
    gone = [line for line in rows_of(folder, "history.jsonl") if "known" in line] if has_memory else []
    return {
        "verdict": report.summary.verdict.value,
        "status": report.summary.exit_status(),
        "found": {*found_by(folder)},
        "accepted": {
            (name, each["code"]) for name, bucket, each in findings if each["is_accepted"] and bucket != "unresolved"
        },
        **{each: {name for _, name, bucket in rows if bucket == each} for each in ("unresolved", "rejected")},
        "not_known": {
            (line["reference"], line["code"]) for line in gone if line["state"] == "not_known" and not line["is_old"]
        },
        **moved_by(report.summary.open_findings),
    }


def moved_by(found):
    return {name: (getattr(found, name).count, getattr(found, name).amount) for name in MOVES}
