"""The labels and explanations of verdicts, codes, buckets and the bridge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from payclient.reconcile import (
    Bucket,
    Code,
    Difference,
    OpenFindings,
    Settlement,
    SettlementStep,
    StateTotal,
    Step,
    Summary,
    TieOut,
    Verdict,
)


@frozen
class Wording:
    """
    The label and explanation of a code, bucket or verdict.

    Attributes:
        title: What it is, in a few words.
        advice: What it means and what to do next, in a sentence or two.
    """

    title: str
    advice: str = ""


_NOT_TIED = Wording(
    "Breaks", "No row differs, but the statement does not tie: see the bridge to it, and what is below."
)

VERDICTS: Mapping[Verdict, Wording] = {
    Verdict.EMPTY: Wording("Empty", "Check that the right file was given, and that it has more than a header."),
    Verdict.CLEAN: Wording("Clean", "There is nothing to do."),
    Verdict.PARTIAL: Wording(
        "Partial",
        "The status was not compared, so this says nothing about what is paid. Add a status column, or assume paid.",
    ),
    Verdict.BREAKS: Wording("Breaks", "Go through the breaks below, the most severe first."),
    Verdict.INCOMPLETE: Wording(
        "Incomplete",
        "Run the same command again: it asks about the unresolved rows only. Until then, figures may change.",
    ),
}

_NO_AMOUNTS = Wording(
    "Partial",
    "Amounts were not compared, so this says nothing about money. Name the column with --column amount=NAME, if there "
    "is one.",
)

_NOTHING_FOUND = Wording(
    "Incomplete",
    "Nothing was found: wrong key or environment? Give a reference that exists with --canary.",
)


def verdict_wording(summary: Summary) -> Wording:
    """Return the label and the advice for the result of a run."""
    if summary.verdict is Verdict.BREAKS and not any(
        summary.buckets[each].rows for each in (Bucket.BREAK, Bucket.REJECTED)
    ):
        return _NOT_TIED
    if summary.verdict is Verdict.PARTIAL and summary.compared.are_amounts_left_out:
        return _NO_AMOUNTS
    return _NOTHING_FOUND if summary.lacking_probe else VERDICTS[summary.verdict]


BUCKETS: Mapping[Bucket, Wording] = {
    Bucket.MATCHED: Wording("Matched", "All that is compared agrees."),
    Bucket.OPEN: Wording("Open", "Not paid or not settled yet, and not late."),
    Bucket.BREAK: Wording("Breaks", "The two sides differ."),
    Bucket.UNRESOLVED: Wording("Unresolved", "No trustworthy answer yet."),
    Bucket.REJECTED: Wording("Rejected", "The ledger row cannot be used."),
}

STEPS: Mapping[Step, str] = {
    Step.MATCHED: "the same on both sides",
    Step.TOLERATED: "within tolerance, or accepted",
    Step.MISSING: "the service knows no such transaction",
    Step.DUPLICATES: "the reference is counted on a row before",
    Step.UNDERPAID: "paid on both sides, and less at the service",
    Step.OVERPAID: "paid on both sides, and more at the service",
    Step.RECORDED_NOT_PAID: "paid in the ledger alone",
    Step.REFUND_NOT_RECORDED: "refunded at the service alone",
    Step.REFUND_NOT_MADE: "refunded in the ledger alone",
    Step.PAID_NOT_RECORDED: "paid at the service alone",
    Step.LATE_PAYMENT: "paid at the service, and closed in the ledger",
    Step.UNKNOWN_STATUS: "one side uses a word that is not known",
    Step.OTHER_BREAKS: "other differences, which move no paid money",
    Step.AMOUNT_NOT_STATED: "the ledger states no amount",
    Step.STATUS_NOT_COMPARED: "the ledger states no status, and none was assumed",
    Step.NOT_IN_LEDGER: "paid at the service, and listed by the statement alone",
    Step.OPEN: "one side may still learn of it",
    Step.CARRIED: "rows of the previous run that the ledger does not list any more",
    Step.UNUSABLE: "neither answer of the service can be used",
    Step.UNRESOLVED: "not known at the service yet",
    Step.REJECTED: "the ledger row cannot be used",
}
"""What each step of the bridge holds."""


@frozen
class BridgeLine:
    """
    One line of the bridge.

    Attributes:
        label: What it stands for.
        meaning: What is in it.
        amount: A total, or what the step adds on the whole.
        step: The step; None for a total.
    """

    label: str
    meaning: str
    amount: int
    step: Difference[Step] | Difference[SettlementStep] | None = None


def bridge_lines(tie_out: TieOut) -> Iterator[BridgeLine]:
    """Yield both totals, the steps between them, and the residual, in the order of every report."""
    yield BridgeLine("Ledger, paid", "sum of what the ledger states as paid", tie_out.ledger_paid_total)
    for step in tie_out.steps:
        yield BridgeLine(step.step.label.capitalize(), STEPS[step.step], step.amount, step)
    yield BridgeLine("Service, paid", "what the service has as paid, each reference once", tie_out.service_paid_total)
    yield BridgeLine("Residual", "what the steps leave unexplained", tie_out.residual)


SETTLEMENT_STEPS: Mapping[SettlementStep, str] = {
    SettlementStep.SETTLED: "in the statement, with the same money",
    SettlementStep.FEES: "held back from settled payments, and fees that belong to none",
    SettlementStep.SETTLED_DIFFERENTLY: "in the statement, with other money",
    SettlementStep.AMOUNT_NOT_STATED: "in the statement, which states no money for it",
    SettlementStep.NOT_SETTLED: "paid at the service, and not in the statement",
    SettlementStep.NOT_SETTLED_YET: "the same, and still in time",
    SettlementStep.SETTLED_NOT_PAID: "in the statement, and not paid at the service",
    SettlementStep.REFUNDED: "taken back in the statement, and not paid at the service",
    SettlementStep.SETTLED_BEFORE: "in the statement of an earlier run",
    SettlementStep.UNRESOLVED: "in the statement, and not known at the service",
    SettlementStep.REJECTED: "lines of the statement that cannot be used",
}
"""What each step of the bridge to the statement holds."""


def settlement_lines(settlement: Settlement) -> Iterator[BridgeLine]:
    """Yield both totals, the steps between them, and the residual, as `bridge_lines` does."""
    yield BridgeLine("Service, paid", "where the bridge from the ledger ends", settlement.service_paid_total)
    for step in settlement.steps:
        yield BridgeLine(step.step.label.capitalize(), SETTLEMENT_STEPS[step.step], step.amount, step)
    what = "what was paid out" if settlement.statement.is_net else "what was paid"
    yield BridgeLine("Statement", f"sum of {what}, over all its lines", settlement.statement.total)
    yield BridgeLine("Residual", "what the steps leave unexplained", settlement.residual)


def payout_sentence(settlement: Settlement) -> str:
    """Compare the money that came to the bank with the statement's total; empty where it was not given."""
    if settlement.payout is None:
        return ""
    total, difference = settlement.statement.total, settlement.payout_difference
    if not difference:
        return f"The payout of {settlement.payout:,} is the statement's total."
    word = "more" if difference > 0 else "less"
    return f"The payout of {settlement.payout:,} is {abs(difference):,} {word} than the statement's total of {total:,}."


def roll_forward_lines(found: OpenFindings) -> Iterator[tuple[str, int | None, int]]:
    """Yield how the open findings follow from those of the run before: label, number and amount at stake."""
    yield ("Open before", found.opening.count, found.opening.amount)
    yield ("New", found.new.count, found.new.amount)
    yield ("Reopened", found.reopened.count, found.reopened.amount)
    yield ("Resolved", -found.resolved.count, -found.resolved.amount)
    if found.changed:
        yield ("Other amount than before", None, found.changed)
    yield ("Open now", found.closing.count, found.closing.amount)


def open_lines(found: OpenFindings) -> Iterator[tuple[str, int, int]]:
    """Yield what is open by kind and by age: label, number and amount at stake; each list sums to what is open."""
    for code, total in found.by_code.items():
        yield (CODES[code].title, total.count, total.amount)
    yield ("All kinds", found.closing.count, found.closing.amount)
    for age, total in found.by_age.items():
        yield (f"Open {age}" if age != "older" else "Open for longer", total.count, total.amount)
    yield ("All ages", found.closing.count, found.closing.amount)


def money_by_status(tie_out: TieOut) -> Mapping[str, StateTotal]:
    """Return the rows and money of each state, by its label."""
    return {state or "not known": total for state, total in tie_out.states.items()}


CODES: Mapping[Code, Wording] = {
    Code.NOT_IN_LEDGER: Wording(
        "Paid, and not in the ledger",
        "The statement lists a payment that no usable row of the ledger has. Record it, and find out why it was lost.",
    ),
    Code.SETTLED_NOT_PAID: Wording(
        "Settled, but not paid",
        "The statement lists it, and the service does not say that it is paid. Ask the provider what was settled.",
    ),
    Code.SETTLED_DIFFERENTLY: Wording(
        "Settled with another amount",
        "The statement has another amount than the service. Claim the difference, or correct the ledger.",
    ),
    Code.NOT_SETTLED: Wording(
        "Paid, but not settled",
        "The service has it as paid, and the statement does not list it. Claim it from the provider.",
    ),
    Code.PAID_TWICE: Wording(
        "Paid twice",
        "One invoice was paid under several references. Find out which payment stands, and refund the other.",
    ),
    Code.REVERSED: Wording(
        "Paid before, and not any more",
        "The service had it as paid in an earlier run, and has not now. Hold delivery, and ask the service why. "
        "It stays open until it is paid again, the ledger changes to what the service says, or it is accepted.",
    ),
    Code.RECORDED_NOT_PAID: Wording(
        "Recorded as paid, but not paid",
        "The ledger counts money that the service does not say it has. Hold delivery, and correct the ledger.",
    ),
    Code.PAID_NOT_RECORDED: Wording(
        "Paid, but not recorded",
        "The customer has paid and the ledger does not know it. Record the payment, and look for a lost notification.",
    ),
    Code.LATE_PAYMENT: Wording(
        "Paid after it was closed",
        "Money came in for something that the ledger had given up. Deliver, or refund.",
    ),
    Code.REFUND_NOT_RECORDED: Wording(
        "Refunded, but not recorded",
        "The service has paid the money back, and the ledger does not know it. Record the refund, and ask who made it.",
    ),
    Code.REFUND_NOT_MADE: Wording(
        "Recorded as refunded, but not refunded",
        "The ledger has paid the money back, and the service has not. Make the refund, or correct the ledger.",
    ),
    Code.MERCHANT_REFF_DIFFERS: Wording(
        "Other merchant_reff",
        "The two sides speak of different invoices. Find out which of them the payment belongs to.",
    ),
    Code.MISSING_AT_SERVICE: Wording(
        "Missing at the service",
        "The service knows no such transaction, and it was asked twice. Check the reference and the environment.",
    ),
    Code.UNUSABLE_ANSWER: Wording(
        "Unusable answer",
        "The service answered twice, and neither answer can be used: it declined, or a field is malformed. "
        "Send the rows to the service with their messages. Only a new run asks again.",
    ),
    Code.DUPLICATE_REFERENCE: Wording(
        "Listed more than once",
        "Several ledger rows have the same reference, and only one of them can be right.",
    ),
    Code.UNDERPAID: Wording(
        "Underpaid",
        "The service has less than the ledger expects. Collect the rest, or accept it.",
    ),
    Code.OVERPAID: Wording(
        "Overpaid",
        "The service has more than the ledger expects. Refund the excess, or correct the ledger.",
    ),
    Code.NET_DIFFERS: Wording(
        "Other net amount",
        "What is paid out is not what the ledger expects. Look at the fee first.",
    ),
    Code.SHORT_RECEIVED: Wording(
        "Paid, but not all of it arrived",
        "It is paid at the service, and less than amount less fee was received. Claim the rest from the provider.",
    ),
    Code.FEE_OFF_SCHEDULE: Wording(
        "Fee off schedule",
        "The fee is not what the rules' schedule says. Claim it back, or correct the schedule.",
    ),
    Code.FEE_DIFFERS: Wording("Other fee", "The fee is not the recorded one. Compare it with the contract."),
    Code.UNKNOWN_STATUS: Wording(
        "Unknown status",
        "A status word is not known, and none is guessed. Add the word to the rules once you know what it means.",
    ),
    Code.STALE_PENDING: Wording(
        "Pending past its expiry",
        "The expiry has passed, and at least one side still says pending. Close it, or ask the service.",
    ),
    Code.PENDING_ON_ONE_SIDE: Wording(
        "Pending on one side, closed on the other",
        "The expiry has not passed, or is not known. Find out why one side closed it, and bring the other in line.",
    ),
    Code.METHOD_DIFFERS: Wording(
        "Other payment method",
        "It was paid another way than recorded; the fee may differ too.",
    ),
    Code.PAYMENT_CODE_DIFFERS: Wording("Other payment code", "The payer used another code than the ledger has."),
    Code.CLOSED_DIFFERENTLY: Wording(
        "Closed for different reasons",
        "Neither side expects money. Only the recorded reason differs.",
    ),
    Code.EXPIRY_DIFFERS: Wording("Other expiry", "The two sides give different times of expiry."),
    Code.SERVICE_ARITHMETIC: Wording(
        "The service's numbers do not add up",
        "Amount less fee is not the amount received, in the service's own answer. Worth asking the provider.",
    ),
    Code.NOT_COMPARED: Wording(
        "Empty cell, not compared",
        "The service states it and the ledger's cell is empty. Fill the cell to have it compared.",
    ),
    Code.TOLERATED_DEVIATION: Wording(
        "Answered in another form than documented",
        "The values could be read exactly and were compared as usual.",
    ),
}

CASE_ONLY = Wording(
    "merchant_reff in other letters",
    "Only letter case or spacing differs: most likely one side changed it on the way.",
)
"""Of `merchant_reff_differs` where it is less severe than usual."""
