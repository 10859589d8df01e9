"""The words in which a report explains its codes, buckets and steps to people who do not know them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from payclient.reconcile import Bucket, Code, Step, Verdict


@frozen
class Wording:
    """
    How something with a stable name is explained.

    Attributes:
        title: What it is, in a few words.
        advice: What it means and what to do next, in a sentence or two.
    """

    title: str
    advice: str = ""


VERDICTS: Mapping[Verdict, Wording] = {
    Verdict.EMPTY: Wording("Empty", "Check that the right file was given, and that it has more than a header."),
    Verdict.CLEAN: Wording("Clean", "There is nothing to do."),
    Verdict.BREAKS: Wording("Breaks", "Go through the breaks below, the most severe first."),
    Verdict.INCOMPLETE: Wording(
        "Incomplete",
        "Run the same command again: it asks about the unresolved rows only. Until then, figures may change.",
    ),
}

BUCKETS: Mapping[Bucket, Wording] = {
    Bucket.MATCHED: Wording("Matched", "All that is compared agrees."),
    Bucket.OPEN: Wording("Open", "Not paid yet, and not late."),
    Bucket.BREAK: Wording("Breaks", "The two sides differ."),
    Bucket.UNRESOLVED: Wording("Unresolved", "No trustworthy answer yet."),
    Bucket.REJECTED: Wording("Rejected", "The ledger row cannot be used."),
}

STEPS: Mapping[Step, Wording] = {
    Step.TOLERATED: Wording("Matched", "rows that agree, or differ within tolerance"),
    Step.MISSING: Wording("Missing at the service", "taken off: the service knows no such transaction"),
    Step.DUPLICATES: Wording("Listed again", "taken off: counted on the first row with the same reference"),
    Step.UNDER_OR_OVERPAID: Wording("Other differences", "the service's amount takes the place of the ledger's"),
    Step.STATUS_BREAKS: Wording("Status differs", "taken off: the two sides disagree about the state"),
    Step.OPEN: Wording("Open", "taken off: not paid yet"),
    Step.UNRESOLVED: Wording("Unresolved", "taken off: not known yet"),
    Step.REJECTED: Wording("Rejected", "taken off: the row cannot be used"),
}

CODES: Mapping[Code, Wording] = {
    Code.PAID_TWICE: Wording(
        "Paid twice",
        "One invoice was paid under several references. Find out which payment stands, and refund the other.",
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
    Code.MERCHANT_REFF_DIFFERS: Wording(
        "Other merchant_reff",
        "The two sides speak of different invoices. Find out which of them the payment belongs to.",
    ),
    Code.MISSING_AT_SERVICE: Wording(
        "Missing at the service",
        "The service knows no such transaction, and it was asked twice. Check the reference and the environment.",
    ),
    Code.DUPLICATE_REFERENCE: Wording(
        "Listed more than once",
        "Several ledger rows have the same reference, and only one of them can be right.",
    ),
    Code.UNDERPAID: Wording(
        "Underpaid", "The service has less than the ledger expects. Collect the rest, or accept it."
    ),
    Code.OVERPAID: Wording(
        "Overpaid", "The service has more than the ledger expects. Refund the excess, or correct the ledger."
    ),
    Code.NET_DIFFERS: Wording(
        "Other net amount",
        "What is paid out is not what the ledger expects. Look at the fee first.",
    ),
    Code.FEE_DIFFERS: Wording("Other fee", "The fee is not the recorded one. Compare it with the contract."),
    Code.UNKNOWN_STATUS: Wording(
        "Unknown status",
        "A status word is not known, and none is guessed. Add the word to the rules once you know what it means.",
    ),
    Code.STALE_PENDING: Wording(
        "Still pending",
        "The expiry has passed, or the other side is closed. Close it, or ask the service.",
    ),
    Code.METHOD_DIFFERS: Wording(
        "Other payment method", "It was paid another way than recorded; the fee may differ too."
    ),
    Code.PAYMENT_CODE_DIFFERS: Wording("Other payment code", "The payer used another code than the ledger has."),
    Code.CLOSED_DIFFERENTLY: Wording(
        "Closed for different reasons", "Neither side expects money. Only the recorded reason differs."
    ),
    Code.EXPIRY_DIFFERS: Wording("Other expiry", "The two sides give different times of expiry."),
    Code.SERVICE_ARITHMETIC: Wording(
        "The service's numbers do not add up",
        "Amount less fee is not the amount received, in the service's own answer. Worth asking the provider.",
    ),
    Code.TOLERATED_DEVIATION: Wording(
        "Answered in another form than documented",
        "The values could be read exactly and were compared as usual.",
    ),
}

CASE_ONLY = Wording(
    "merchant_reff in other letters", "Only upper and lower case differ: most likely one side changed it on the way."
)
"""Of `merchant_reff_differs` where it is less severe than usual."""
