"""
Classify the words of a refusal.

Design rules:

- "Not found" is believed only if the text consists of a word for a transaction or a reference, a phrase for its
  absence, and filler words. With any other word it may mean something else.
- Words about the service, its address, the key or the merchant have priority.
- Anything else is unknown, and never "not found".
"""

import re
from collections.abc import Iterable
from enum import Enum

from payclient.protocol._secret import REMOVED


class Meaning(Enum):
    NOT_FOUND = "not found"
    NO_DATA = "no data"  # the record is missing. Its kind is not named
    BARE = "bare"  # only "not found", or no message
    KEY = "key"
    DENIED = "denied"  # about a key, a merchant, an account or the caller
    DOWN = "down"  # the service, or its database
    ELSEWHERE = "elsewhere"  # wrong address: about a route, a path or a method
    UNKNOWN = "unknown"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUBJECTS = _words(
    "transaction transactions trx transaksi payment payments pembayaran reference references referensi reff ref"
)
"""Words for a transaction or its reference. A message about an invoice, an order or a page is about something else."""

ABSENCES = frozenset(
    {
        *("not found", "not exist", "not exists", "not find", "not registered", "not recognized", "not known"),
        *("no found", "no exist", "no exists", "no such", "unknown", "no matches query"),
        *("no query results model", "no query results model app models", "no query results model app"),
        *("tidak ditemukan", "tidak ketemu", "tidak ada", "tidak terdaftar", "tidak dikenal", "tidak dikenali"),
        "no tidak ditemukan",
    }
)
"""Phrases for "does not exist", without the subject and without filler words."""

REFUSED_KEY_MESSAGES = frozenset(
    {
        *("invalid api key", "api key is invalid", "api key not found", "invalid token"),
        *("unauthenticated", "unauthorized", "authentication failed", "api key tidak valid"),
    }
)
"""Messages that are believed to mean "the key is refused" when the status does not say so."""

_RECORDS = _words("data detail details record records row rows")
_WEIGHTLESS = _words(
    "a an any the this that your our with for of by in is was were are be been has have had does do did can could "
    "given requested specified provided supplied matching id en code number error exception sorry system 404 "
    "kode nomor anda tersebut ini itu dengan di pada kami maaf dapat bisa sistem"
)
_EMPTY = _WEIGHTLESS | {"status", "fail", "failed", "gagal", "false"}
_CODE = re.compile(r"[a-z]{0,8}\d+")
_DOWN = re.compile(
    r"\b(?:maintenance|pemeliharaan|perbaikan|gangguan|unavailable|temporar(?:y|ily)|overloaded|busy|sibuk"
    r"|sqlstate|sql|mysqli?|mariadb|postgres\w*|pdo\w*|ora|redis|mongo\w*|database|db|basis data|deadlock"
    r"|tables?|column|relation|class|time ?d? ?out|try again|(?:again|back) later|coba (?:lagi|kembali)|beberapa saat"
    r"|upstream|gateway|backend|connections?|connect|koneksi|terhubung|getaddrinfo|econn\w+|socket"
    r"|(?:internal|server|unexpected|fatal) error|internal server|went wrong|whoops|terjadi kesalahan"
    r"|kesalahan (?:server|sistem|internal|pada)|not available|tidak (?:tersedia|dapat diakses|bisa diakses)"
    r"|undefined|memory|stack trace|null pointer|out of service|offline|shutting down|under construction)\b"
)
_ELSEWHERE = re.compile(
    r"\b(?:routes?|rute|endpoints?|urls?|uri|pages?|halaman|paths?|controller|handler|static resource|mapping"
    r"|(?<!payment )method (?:is )?not (?:allowed|supported)|(?<!payment )methods? (?:get|post|put|head)"
    r"|metode http|can not (?:get|post|put)|on this server"
    r"|no such app|application not found|deployment|tunnel|site|domain|host|bucket|api version)\b"
)
_DENIED = re.compile(
    r"\b(?:api ?keys?|(?:secret|access|client|server|merchant|private|public|invalid|wrong|missing|no|unknown) keys?"
    r"|keys? (?:is |was |has )?(?:not|invalid|expired|missing|unknown|revoked|tidak|salah|does)|kunci"
    r"|tokens?|credentials?|kredensial|signature|unauthenticated|unauthori[sz]ed|authenticat\w+|authori[sz]ation"
    r"|o?autentikasi|otentikasi|otorisasi|log ?in|log(?:ged)? in|bearer"
    r"|merchants? (?:\w+ ){0,2}(?:not|tidak|inactive|unknown|suspended|blocked|disabled|invalid|nonaktif|diblokir)"
    r"|(?:unknown|invalid|no such|no|inactive) merchants?|models (?:merchant|user|account|client)"
    r"|(?:account|akun|user|pengguna|client|partner|company|store|toko|project)s? (?:\w+ )?"
    r"(?:not|tidak|inactive|unknown|suspended|blocked|disabled|nonaktif)"
    r"|access denied|akses ditolak|forbidden|permissions?|ip (?:address )?(?:\w+ ){0,6}(?:not|blocked|tidak)"
    r"|whitelist\w*|allowlist\w*|suspended|tidak (?:memiliki|punya) (?:akses|izin)|subscription)\b"
)
_BY_WORD = ((_DOWN, Meaning.DOWN), (_ELSEWHERE, Meaning.ELSEWHERE), (_DENIED, Meaning.DENIED))


def plain(text: str) -> str:
    """Return *text* in lower case, with one space between its words and no punctuation."""
    spread = re.sub(r"n['\u2019]t\b", " not", text.replace("annot", "an not"))
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", spread)  # TransactionNotFound
    return " ".join(re.sub(r"[\W_]+", " ", spread).casefold().split())


def meaning(
    texts: Iterable[str], reference: str, believed: frozenset[str] = frozenset(), *, beside: Iterable[str] = ()
) -> Meaning:
    named = plain(reference) if any(map(str.isdigit, reference)) else ""  # without a digit it may be a word of theirs
    said, all_said = ([text for given in part if (text := _plain(given, named))] for part in (texts, beside))
    said = said or all_said
    others = [text for text in said if text not in believed]
    if REFUSED_KEY_MESSAGES.intersection(others):
        return Meaning.KEY
    whole = " | ".join(text for text in (*others, *all_said) if text not in believed)
    for words, subject in _BY_WORD:
        if words.search(whole):
            return subject
    found = {_absence(text) for text in others}
    if Meaning.UNKNOWN in found:
        return Meaning.UNKNOWN
    if len(others) < len(said) or Meaning.NOT_FOUND in found:
        return Meaning.NOT_FOUND
    return Meaning.NO_DATA if Meaning.NO_DATA in found else Meaning.BARE


def _plain(text: str, reference: str) -> str:
    text = plain(text.replace(REMOVED, " "))
    return " ".join(f" {text} ".replace(f" {reference} ", " ").split()) if reference else text


def _absence(text: str) -> Meaning:
    if all(word in _EMPTY or _CODE.fullmatch(word) for word in text.split()):
        return Meaning.BARE
    words = [word for word in text.split() if word not in _WEIGHTLESS]
    if " ".join(word for word in words if word not in SUBJECTS and word not in _RECORDS) not in ABSENCES:
        return Meaning.UNKNOWN
    if not SUBJECTS.isdisjoint(words):
        return Meaning.NOT_FOUND
    return Meaning.BARE if _RECORDS.isdisjoint(words) else Meaning.NO_DATA
