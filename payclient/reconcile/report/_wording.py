"""The labels and explanations of verdicts, buckets and the bridge."""

from collections.abc import Iterator, Mapping

from attrs import frozen

from payclient._shared.escape import plural
from payclient.reconcile import Bucket, Difference, Settlement, SettlementStep, StateTotal, Step, Summary, TieOut
from payclient.reconcile.result import Condition, OpenFindings
from payclient.reconcile.values import Payout


@frozen
class Wording:
    title: str
    advice: str


_ADVICE: Mapping[Condition, str] = {
    Condition.NOTHING_READ: "Check that the right file was given, and that it has more than a header.",
    Condition.NOTHING_FOUND: "Nothing was found: wrong key or environment? Give a reference that exists with --canary.",
    Condition.UNRESOLVED: (
        "Run the same command again: it asks about the unresolved rows only. Until then, figures may change."
    ),
    Condition.BREAKS: "Go through the breaks below, the most severe first.",
    Condition.REJECTED: "Correct the rejected rows in the ledger, and run again.",
    Condition.ROWS_LEFT: "Rows left the ledger, although it covers their time: see below, and export it again.",
    Condition.NOT_TIED: "No row differs, but the statement does not tie: see the bridge to it, and what is below.",
    Condition.AMOUNTS_LEFT_OUT: (
        "Amounts were not compared, so this says nothing about money. Name the column with --column amount=NAME, if "
        "there is one."
    ),
    Condition.STATUS_LEFT_OUT: (
        "The status was not compared, so this says nothing about what is paid. Add a status column, or assume paid."
    ),
    Condition.CLEAN: "There is nothing to do.",
}


def verdict_advice(summary: Summary) -> str:
    """Return what to do next, for the condition that decides the verdict."""
    condition = summary.conditions[0]
    if condition in (Condition.COLUMNS_LEFT_OUT, Condition.STATEMENT_LEFT_OUT):
        return summary.compared.unused_advice
    return _ADVICE[Condition.UNRESOLVED if condition is Condition.NOTHING_ANSWERED else condition]


def headline(summary: Summary) -> str:
    """Return the number of breaks, next to the previous run's, the money at stake in them, and the material ones."""
    breaks, found = summary.buckets[Bucket.BREAK].rows, [plural(summary.buckets[Bucket.BREAK].rows, "break")]
    if summary.since is not None:
        more = breaks - summary.since.previous.buckets.get(Bucket.BREAK, 0)
        change = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than" if more else "as many as"
        found.append(f", {change} in {summary.since.previous.label}")
    if stake := summary.open_findings.payments.amount:
        found.append(f"; {stake:,} at stake")
    found += [f"; {summary.material:,} of them material"] if summary.material else []
    others = (Bucket.UNRESOLVED, Bucket.REJECTED)
    found += [f"; {plural(rows, 'row')} {each}" for each in others if (rows := summary.buckets[each].rows)]
    return "".join(found)


BUCKETS: Mapping[Bucket, Wording] = {
    Bucket.MATCHED: Wording("Matched", "All that is compared agrees."),
    Bucket.OPEN: Wording("Open", "Not paid or not settled yet, and not late."),
    Bucket.BREAK: Wording("Breaks", "The two sides differ."),
    Bucket.UNRESOLVED: Wording("Unresolved", "No trustworthy answer yet."),
    Bucket.REJECTED: Wording("Rejected", "The ledger row cannot be used."),
}


@frozen
class BridgeLine:
    """One line of the bridge; a total has no step."""

    label: str
    meaning: str
    amount: int
    step: Difference[Step] | Difference[SettlementStep] | None = None


def bridge_lines(tie_out: TieOut) -> Iterator[BridgeLine]:
    """Yield both totals, the steps between them, and the residual, in the order of every report."""
    yield BridgeLine("Ledger, paid", "sum of what the ledger has as paid", tie_out.ledger_paid_total)
    for step in tie_out.steps:
        yield BridgeLine(step.step.label.capitalize(), step.step.meaning, step.amount, step)
    yield BridgeLine("Service, paid", "what the service has as paid, each reference once", tie_out.service_paid_total)
    yield BridgeLine("Residual", "what the steps leave unexplained", tie_out.residual)


def settlement_lines(settlement: Settlement) -> Iterator[BridgeLine]:
    """Yield both totals, the steps between them, and the residual, as `bridge_lines` does."""
    yield BridgeLine("Service, paid", "where the bridge from the ledger ends", settlement.service_paid_total)
    for step in settlement.steps:
        yield BridgeLine(step.step.label.capitalize(), step.step.meaning, step.amount, step)
    what = "what was paid out" if settlement.statement.is_net else "what was paid"
    yield BridgeLine("Statement", f"sum of {what}, over all its lines", settlement.statement.total)
    yield BridgeLine("Residual", "what the steps leave unexplained", settlement.residual)


def payout_sentence(settlement: Settlement) -> str:
    """Compare the money that came to the bank with the statement's total; empty if it was not given."""
    if settlement.payout is None:
        return ""
    total, difference = settlement.statement.total, settlement.payout_difference
    if not difference:
        return f"The payout of {settlement.payout:,} is the statement's total."
    word = "more" if difference > 0 else "less"
    return f"The payout of {settlement.payout:,} is {abs(difference):,} {word} than the statement's total of {total:,}."


def payout_lines(settlement: Settlement) -> list[Payout]:
    """Return the payouts of the statement, and their sum if there are several."""
    found = settlement.statement.payouts
    return [*found, *([sum(found, Payout(name="All"))] if found[1:] else ())]


def roll_forward_lines(found: OpenFindings) -> Iterator[tuple[str, int | None, int]]:
    """Yield the roll-forward of the open findings: label, number and amount at stake."""
    yield ("Open before", found.opening.count, found.opening.amount)
    yield ("New", found.new.count, found.new.amount)
    yield ("Reopened", found.reopened.count, found.reopened.amount)
    yield ("Resolved", -found.resolved.count, -found.resolved.amount)
    yield (f"Changed ({found.changed.count:,})", None, found.changed.amount)
    yield ("Open now", found.closing.count, found.closing.amount)


def open_lines(found: OpenFindings) -> Iterator[tuple[str, int, int]]:
    """Yield the open findings by kind and by age, each list with its sum: label, number and amount at stake."""
    for code, total in found.by_code.items():
        yield (code.label, total.count, total.amount)
    yield ("All kinds", found.closing.count, found.closing.amount)
    if found.payments != found.closing:
        more, again = found.closing.count - found.payments.count, found.closing.amount - found.payments.amount
        yield ("Further findings of the same payments", -more, -again)
        yield ("Payments, each once", found.payments.count, found.payments.amount)
    yield from open_ages(found)


def open_ages(found: OpenFindings) -> Iterator[tuple[str, int, int]]:
    for age, total in found.by_age.items():
        yield (f"Open {age}" if age != "older" else "Open for longer", total.count, total.amount)
    yield ("All ages", found.closing.count, found.closing.amount)


def money_by_status(tie_out: TieOut) -> Mapping[str, StateTotal]:
    return {state or "not known": total for state, total in tie_out.states.items()}


CASE_ONLY = Wording(
    "merchant_reff in other letters", "Only letter case or spacing differs: most likely one side changed it on the way."
)
"""The wording of `merchant_reff_differs` if it is less severe than usual."""
