"""Internal: the statuses, and the codes of findings with their properties."""

import re
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from functools import lru_cache
from inspect import get_annotations
from types import MappingProxyType
from typing import Generic, Self, TypeVar
from unicodedata import normalize

from attrs import frozen

from payclient.reconcile._codec import register
from payclient.reconcile._fields import COMPARED_FIELDS


class Status(StrEnum):
    """
    Meaning of a status word. An unknown word's meaning is not guessed.

    Source:
        `Canceled` is in the specification, `Paid` in the provider's public documentation. The
        others are plain English.
    """

    PAID = "paid"
    PENDING = "pending"
    CANCELED = "canceled"
    EXPIRED = "expired"
    FAILED = "failed"
    REFUNDED = "refunded"


class Assumed(StrEnum):
    """
    The status of each row of a ledger without a status column.

    Attributes:
        PAID: It is paid, as a settlement file means it.
        NONE: Nothing, so the status is not compared, and no such report is clean.
    """

    PAID = "paid"
    NONE = "none"


CLOSED = frozenset({Status.CANCELED, Status.EXPIRED, Status.FAILED})
"""States that end without a payment."""

WORDS: Mapping[str, Status] = MappingProxyType(
    {status.value: status for status in Status} | {"cancelled": Status.CANCELED}
)
"""The words with a fixed meaning, normalised."""


_DASHES = " -\u2010\u2011\u2012\u2013\u2014\u2212"


def states_none(word: str | None) -> bool:
    """Return whether *word* is not a status: it is empty, or a dash."""
    return word is None or not word.strip(_DASHES)


_SPELLINGS = {each.name: (re.compile(each.spelling[0]), each.spelling[1]) for each in COMPARED_FIELDS if each.spelling}


def folded(text: str, field: str) -> str:
    """Return the normal form of *text* in *field*: equal for all texts that mean the same."""
    pattern, instead = _SPELLINGS[field]
    return pattern.sub(instead, normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=1024)  # a ledger of a million rows has a handful of words
def normalise(word: str) -> str:
    """Return *word* with uniform case, width, spaces, dashes and underscores."""
    return folded(word, "status")


def read_status(word: str | None, more: Mapping[str, Status] = MappingProxyType({})) -> Status | None:
    """
    Return the meaning of *word*, ignoring case, spaces, dashes and underscores. None if not known.

    Args:
        word: As a side wrote it. None if it wrote nothing.
        more: Other known words, normalised, such as `Rules.statuses`.
    """
    if word is None:
        return None
    plain = normalise(word)
    return WORDS.get(plain) or more.get(plain)


class Described(StrEnum):
    """A word with facts, which stand in the order of the annotations."""

    def __new__(cls, name: str, *facts: object) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        attributes = (attribute for base in cls.__mro__ for attribute in get_annotations(base))
        for attribute, fact in zip(attributes, facts, strict=True):
            setattr(member, attribute, fact)
        return member


class BridgeStep(Described):
    """A reason for a difference between two totals, with its meaning for reports."""

    meaning: str


class Step(BridgeStep):
    """The reasons for a difference between the totals, in the order of the bridge."""

    MATCHED = "matched", "the same on both sides"
    TOLERATED = "tolerated", "within tolerance, or accepted"
    MISSING = "missing", "the service knows no such transaction"
    DUPLICATES = "duplicates", "the reference is counted on a row before"
    UNDERPAID = "underpaid", "paid on both sides, but less at the service"
    OVERPAID = "overpaid", "paid on both sides, but more at the service"
    RECORDED_NOT_PAID = "recorded_not_paid", "paid only in the ledger"
    REFUND_NOT_RECORDED = "refund_not_recorded", "refunded only at the service"
    REFUND_NOT_MADE = "refund_not_made", "refunded only in the ledger"
    PAID_NOT_RECORDED = "paid_not_recorded", "paid only at the service"
    LATE_PAYMENT = "late_payment", "paid at the service, but closed in the ledger"
    UNKNOWN_STATUS = "unknown_status", "one side uses a word that is not known"
    OTHER_BREAKS = "other_breaks", "other differences, which move no paid money"
    AMOUNT_NOT_STATED = "amount_not_stated", "the ledger has no amount"
    STATUS_NOT_COMPARED = "status_not_compared", "the ledger has no status, and none was assumed"
    NOT_IN_LEDGER = "not_in_ledger", "paid at the service, but listed only by the statement"
    OPEN = "open", "pending, or within the grace period"
    CARRIED = "carried", "rows of the previous run that the ledger does not list any more"
    UNUSABLE = "unusable", "neither answer of the service can be used"
    UNRESOLVED = "unresolved", "not known at the service yet"
    REJECTED = "rejected", "the ledger row cannot be used"


_Step = TypeVar("_Step", bound=BridgeStep)


@frozen(kw_only=True)
class Difference(Generic[_Step]):
    """
    One step of a bridge.

    Attributes:
        step: The reason.
        rows: Rows in it: of the ledger, or references and rejected lines of a statement.
        added: Sum over the rows that increase the total. 0 or more.
        taken_off: Sum over the rows that decrease it. 0 or less.
    """

    step: _Step
    rows: int = 0
    added: int = 0
    taken_off: int = 0

    @property
    def amount(self) -> int:
        """The net change of the total."""
        return self.added + self.taken_off


class Severity(IntEnum):
    """The weight of a finding. They can be compared."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def word(self) -> str:
        """The name in reports."""
        return self.name.lower()


register(Severity, write=lambda severity: severity.word, read=lambda word: Severity[word.upper()])


class PatternKind(StrEnum):
    """
    The common trait of the rows of a pattern.

    Attributes:
        FACTOR: The service's amount is the same multiple of the ledger's, or of the statement's.
        DIFFERENCE: The amounts differ by the same number, between ledger and service or statement and service.
        FEE: The fees of one payment method differ by the same number.
        STATUS: The two sides use the same pair of status words.
        WORDS: The two sides have the same pair of texts in another field.
    """

    FACTOR = "factor"
    DIFFERENCE = "difference"
    FEE = "fee"
    STATUS = "status"
    WORDS = "words"


_STATE = ("status", "expdate")
_MONEY = ("amount", "amount_received", "status")
_OF_STATUS = ("", _STATE, PatternKind.STATUS)


class Code(Described):
    """
    The stable name of a finding. Of equally severe findings, the first in this list leads.

    Attributes:
        severity: Severity of such a finding, unless it has its own.
        side: The only side that it is about: `statement`, `service` (whether it has a usable answer) or `ledger` (all
            rows of its reference), which alone can resolve it. Empty otherwise.
        fields: The compared fields that it is about: when one of them changes, that side may have resolved it.
        pattern: The common trait of such findings, or None.
        step: The step of the bridge that has the paid money of such a row. None if its amounts or another finding
            decide.
        label: Its name in a few words.
        advice: Its meaning and the next step, in a sentence or two.
        is_soft: Whether it is a remark, and no difference between the two sides.
        is_of_two_numbers: Whether its two sides are numbers, so that their difference is at stake.
        is_of_status: Whether it is about the states of both sides.
        is_of_statement: Whether it is about the statement.
    """

    severity: Severity
    side: str
    fields: tuple[str, ...]
    pattern: PatternKind | None
    step: Step | None
    label: str
    advice: str

    def __init__(self, *_: object) -> None:
        self.is_soft: bool = not self.fields
        self.is_of_two_numbers: bool = self.pattern in (PatternKind.FACTOR, PatternKind.FEE)
        self.is_of_status: bool = self.pattern is PatternKind.STATUS
        self.is_of_statement: bool = self.side == "statement"

    NOT_IN_LEDGER = (
        *("not_in_ledger", Severity.CRITICAL, "statement", _MONEY, None, None),
        "Paid, and not in the ledger",
        "The statement lists a payment that no usable row of the ledger has. Record it, and find out why it was lost.",
    )
    SETTLED_NOT_PAID = (
        *("settled_not_paid", Severity.CRITICAL, "statement", _MONEY, None, None),
        "Settled, but not paid",
        "The statement lists it, but it isn't paid at the service. Ask the provider what was settled.",
    )
    PAID_TWICE = (
        *("paid_twice", Severity.CRITICAL, "", ("merchant_reff", "status"), None, None),
        "Paid twice",
        "One invoice was paid under several references. Find out which payment stands, and refund the other.",
    )
    REVERSED = (
        *("reversed", Severity.CRITICAL, "", _STATE, None, None),
        "Paid before, and not any more",
        (
            "The service had it as paid in an earlier run, but not now. Hold delivery, and ask the service why. "
            "It stays open until it is paid again, the ledger agrees with the service, or it is accepted."
        ),
    )
    RECORDED_NOT_PAID = (
        *("recorded_not_paid", Severity.CRITICAL, *_OF_STATUS, Step.RECORDED_NOT_PAID),
        "Recorded as paid, but not paid",
        "Your ledger says paid; the service doesn't. Hold delivery, and correct the ledger.",
    )
    PAID_NOT_RECORDED = (
        *("paid_not_recorded", Severity.CRITICAL, *_OF_STATUS, Step.PAID_NOT_RECORDED),
        "Paid, but not recorded",
        "The customer has paid, but the ledger does not know it. Record the payment, and look for a lost notification.",
    )
    LATE_PAYMENT = (
        *("late_payment", Severity.CRITICAL, *_OF_STATUS, Step.LATE_PAYMENT),
        "Paid after it was closed",
        "Money came in for something that the ledger had given up. Deliver, or refund.",
    )
    REFUND_NOT_RECORDED = (
        *("refund_not_recorded", Severity.CRITICAL, *_OF_STATUS, Step.REFUND_NOT_RECORDED),
        "Refunded, but not recorded",
        "The service has paid the money back, but the ledger does not know it. Record the refund, and ask who made it.",
    )
    REFUND_NOT_MADE = (
        *("refund_not_made", Severity.CRITICAL, *_OF_STATUS, Step.REFUND_NOT_MADE),
        "Recorded as refunded, but not refunded",
        "The ledger has paid the money back, but the service has not. Make the refund, or correct the ledger.",
    )
    MERCHANT_REFF_DIFFERS = (
        *("merchant_reff_differs", Severity.CRITICAL, "", ("merchant_reff",), PatternKind.WORDS, None),
        "Other merchant_reff",
        "The ledger and the service name different invoices. Find out which one the payment belongs to.",
    )
    MISSING_AT_SERVICE = (
        *("missing_at_service", Severity.HIGH, "service", _STATE, None, None),
        "Missing at the service",
        "The service knows no such transaction, and it was asked twice. Check the reference and the environment.",
    )
    UNUSABLE_ANSWER = (
        *("unusable_answer", Severity.HIGH, "service", _STATE, None, None),
        "Unusable answer",
        (
            "The service answered twice, and neither answer can be used: it declined, or a field is malformed. "
            "Send the rows to the service with their messages. Only a new run asks again."
        ),
    )
    DUPLICATE_REFERENCE = (
        *("duplicate_reference", Severity.HIGH, "ledger", _STATE, None, None),
        "Listed more than once",
        "Several ledger rows have the same reference, and only one of them can be right.",
    )
    LEFT_THE_LEDGER = (
        *("left_the_ledger", Severity.HIGH, "ledger", _STATE, None, None),
        "Left the ledger",
        (
            "The ledger of an earlier run had it, and this one does not, although it covers its time. "
            "Export the ledger again, or accept it. It stays open until it is back, or the rules have may_leave = true."
        ),
    )
    SETTLED_DIFFERENTLY = (
        *("settled_differently", Severity.HIGH, "statement", _MONEY, PatternKind.FACTOR, None),
        "Settled with another amount",
        "The statement has another amount than the service. Claim the difference, or correct the ledger.",
    )
    NOT_SETTLED = (
        *("not_settled", Severity.HIGH, "statement", _MONEY, None, None),
        "Paid, but not settled",
        "The service has it as paid, but the statement does not list it. Claim it from the provider.",
    )
    UNDERPAID = (
        *("underpaid", Severity.HIGH, "", ("amount",), PatternKind.FACTOR, None),
        "Underpaid",
        "The service has less than the ledger expects. Collect the rest, or accept it.",
    )
    OVERPAID = (
        *("overpaid", Severity.HIGH, "", ("amount",), PatternKind.FACTOR, None),
        "Overpaid",
        "The service has more than the ledger expects. Refund the excess, or correct the ledger.",
    )
    NET_DIFFERS = (
        *("net_differs", Severity.HIGH, "", ("amount_received",), PatternKind.FACTOR, None),
        "Other net amount",
        "The amount paid out isn't what the ledger expects. Look at the fee first.",
    )
    SHORT_RECEIVED = (
        *("short_received", Severity.HIGH, "", ("amount", "fee", "amount_received", "status"), None, None),
        "Paid, but not all of it arrived",
        "It is paid at the service, but less than amount minus fee was received. Claim the rest from the provider.",
    )
    FEE_DIFFERS = (
        *("fee_differs", Severity.MEDIUM, "", ("fee",), PatternKind.FEE, None),
        "Other fee",
        "The fee is not the recorded one. Compare it with the contract.",
    )
    FEE_OFF_SCHEDULE = (
        *("fee_off_schedule", Severity.MEDIUM, "", ("fee", "amount", "payment_method"), PatternKind.FEE, None),
        "Fee off schedule",
        "The fee is not the one of the rules' schedule. Claim it back, or correct the schedule.",
    )
    UNKNOWN_STATUS = (
        *("unknown_status", Severity.MEDIUM, *_OF_STATUS, Step.UNKNOWN_STATUS),
        "Unknown status",
        "A status word is not known, and none is guessed. Add the word to the rules once you know what it means.",
    )
    STALE_PENDING = (
        *("stale_pending", Severity.MEDIUM, *_OF_STATUS, None),
        "Pending past its expiry",
        "The expiry has passed, and at least one side is still pending. Close it, or ask the service.",
    )
    PENDING_ON_ONE_SIDE = (
        *("pending_on_one_side", Severity.MEDIUM, *_OF_STATUS, None),
        "Pending on one side, closed on the other",
        "The expiry has not passed, or is not known. Find out why one side closed it, and bring the other in line.",
    )
    METHOD_DIFFERS = (
        *("method_differs", Severity.MEDIUM, "", ("payment_method",), PatternKind.WORDS, None),
        "Other payment method",
        "It was paid another way than recorded, so the fee may differ too.",
    )
    PAYMENT_CODE_DIFFERS = (
        *("payment_code_differs", Severity.MEDIUM, "", ("payment_code",), PatternKind.WORDS, None),
        "Other payment code",
        "The payer used another code than the ledger has.",
    )
    CLOSED_DIFFERENTLY = (
        *("closed_differently", Severity.LOW, *_OF_STATUS, None),
        "Closed for different reasons",
        "Neither side expects money. Only the recorded reason differs.",
    )
    EXPIRY_DIFFERS = (
        *("expiry_differs", Severity.LOW, "", ("expdate",), PatternKind.WORDS, None),
        "Other expiry",
        "The two sides give different times of expiry.",
    )
    SERVICE_ARITHMETIC = (
        *("service_arithmetic", Severity.LOW, "", (), None, None),
        "The service's numbers do not add up",
        "In the service's own answer, amount minus fee is not the amount received. Ask the provider.",
    )
    NOT_COMPARED = (
        *("not_compared", Severity.INFO, "", (), None, None),
        "Empty cell, not compared",
        "The service has a value, but the ledger's cell is empty. Fill the cell to have it compared.",
    )
    TOLERATED_DEVIATION = (
        *("tolerated_deviation", Severity.INFO, "", (), None, None),
        "Answered in another form than documented",
        "The values could be read exactly and were compared as usual.",
    )


OF_TEXTS = {code.fields[0]: code for code in Code if code.pattern is PatternKind.WORDS}
"""The codes of fields whose texts differ."""
