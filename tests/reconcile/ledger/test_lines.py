"""The bytes of a ledger become lines, or are refused with their place and the remedy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import LedgerError
from payclient.reconcile.ledger._text import read_lines


def read(data, size=1 << 16):
    return list(read_lines(data[i : i + size] for i in range(0, len(data), size)))


def test_line_ends(subtests):
    """All kinds of line ends are recognised, the last may be missing, and a byte order mark is skipped."""
    for data in [b"a\nb", b"a\nb\n", b"a\r\nb\r\n", b"a\rb\r", b"a\r\nb", b"\xef\xbb\xbfa\nb"]:
        with subtests.test(data=data):
            assert read(data) == ["a", "b"]


def test_mixed_line_ends():
    """Line ends may be mixed, and characters that some call line ends are none."""
    assert read("a\nb\r\nc\rd\u2028e\x0bf\x85g".encode()) == ["a", "b", "c", "d\u2028e\x0bf\x85g"]


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.integers(1, 5))
def test_chunks(text, size):
    """Where the bytes are cut into chunks makes no difference."""
    text = text.removeprefix("\ufeff")
    expected = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert read(text.encode(), size) == (expected if expected[-1] else expected[:-1])


def test_refused(subtests):
    """For any chunks, a byte that is not UTF-8 is refused, and the message says what to do."""
    for data, offset, line, remedy in [
        ("a\nb".encode("utf-16"), 0, 1, "--encoding utf-16"),
        ("a\nb".encode("utf-16-le"), 1, 1, "--encoding utf-16"),
        ("a\nb".encode("utf-16-be"), 0, 1, "--encoding utf-16"),
        (b"a\nb\nc\0d", 5, 3, "NUL character near byte 5"),
        ("a\nToko Café,1\n".encode("cp1252"), 10, 2, "--encoding cp1252"),
        ("a\nToko \u201eX\u201c\n".encode("cp1252"), 7, 2, "byte 0x84 at offset 7"),
        (b"a\n\xed\xa0\x80\n", 2, 2, "not UTF-8"),
        (b"a\nb\n\xe2\x82", 4, 3, "it is truncated"),
    ]:
        for size in [1, 3, 1 << 16]:
            with subtests.test(data=data, size=size):
                with pytest.raises(LedgerError) as caught:
                    read(data, size)
                assert (caught.value.offset, caught.value.line) == (offset, line)
                assert remedy in str(caught.value)


def test_lines_before_a_fault():
    """Lines before a fault are given before it is raised."""
    lines = read_lines([b"a\nb\nc\0"])
    assert [next(lines), next(lines)] == ["a", "b"]


def test_endless_line():
    """A file without line ends is refused instead of being held in memory."""
    with pytest.raises(LedgerError, match="longer than"):
        read(b"x" * 3_000_000)


def test_declared_encoding(subtests):
    """A file in the declared encoding is read like one in UTF-8, wherever its bytes are split."""
    for size in [1, 3, 65536]:
        for encoding in ["cp1252", "iso8859-1", "utf-16", "utf-16-le", "cp437", "shift_jis", "utf-8"]:
            with subtests.test(size=size, encoding=encoding):
                text = (
                    "reference,note\r\nT1,caf\u00e9\nT2,x\n"
                    if encoding != "shift_jis"
                    else "reference,note\nT1,\u30c6\n"
                )
                data = text.encode(encoding)
                chunks = [data[i : i + size] for i in range(0, len(data), size)]
                assert list(read_lines(chunks, encoding)) == text.splitlines()


def test_not_as_declared(subtests):
    """Bytes that the declared encoding does not have are refused, with their place."""
    for size in [1, 3, 65536]:
        for data, encoding, offset, line, reason in [
            (b"a\nb\x81c\n", "cp1252", 3, 2, "byte 0x81 at offset 3 (line 2) is not cp1252"),
            (b"a\nb\xff\xff", "shift_jis", 3, 2, "is not shift_jis"),
            ("a\nb".encode("utf-16-le"), "utf-16", 0, 1, "byte order mark of UTF-16 is missing"),
            (b"\xff\xfea\x00\n\x00b", "utf-16", 6, 2, "the file is truncated"),
            (b"a\nb\0c\n", "cp1252", None, 2, "NUL character near byte 3 (line 2): it is not cp1252"),
        ]:
            with subtests.test(size=size, data=data):
                with pytest.raises(LedgerError) as caught:
                    list(read_lines([data[i : i + size] for i in range(0, len(data), size)], encoding))
                assert reason in str(caught.value)
                assert caught.value.line == line
                assert offset is None or caught.value.offset == offset


def test_byte_order_mark_has_priority():
    """A byte order mark of UTF-8 says what the file is, whatever was declared."""
    assert list(read_lines(["\ufeffcaf\u00e9".encode()], "cp1252")) == ["caf\u00e9"]
