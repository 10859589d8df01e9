"""The file with every row, plain or compressed."""

from __future__ import annotations

import gzip
import io

import pytest

from payclient.report._rows_file import GZIP_ROWS, ROWS, GzipText, open_rows, rows_file

LINES = [f'{{"line":{number},"reference":"T{number}"}}\n' for number in range(2, 5000)]


def zipped(lines):
    """Return *lines*, compressed."""
    file = io.BytesIO()
    text = GzipText(file)
    for line in lines:
        text.write(line)
    text.finish()
    return file.getvalue()


def test_round_trip(tmp_path):
    """What is written line by line is read back line by line, and the file is smaller."""
    (tmp_path / GZIP_ROWS).write_bytes(zipped(LINES))
    with open_rows(tmp_path / GZIP_ROWS) as file:
        assert [line.decode() for line in file] == LINES
    assert (tmp_path / GZIP_ROWS).stat().st_size * 5 < len("".join(LINES))


def test_reproducible():
    """The header has no time and no name, so the same rows give the same bytes, and any program reads them."""
    one = zipped(LINES)
    assert one[:9] == b"\x1f\x8b\x08" + bytes(6)
    assert one == zipped(LINES)
    assert gzip.decompress(one).decode() == "".join(LINES)


def test_which(tmp_path):
    """The compressed file is taken where there is one, and else the plain one."""
    assert rows_file(tmp_path) == tmp_path / ROWS
    (tmp_path / GZIP_ROWS).touch()
    assert rows_file(tmp_path) == tmp_path / GZIP_ROWS


def test_plain(tmp_path):
    """The plain file is read as it is."""
    (tmp_path / ROWS).write_text("".join(LINES))
    with open_rows(tmp_path / ROWS) as file:
        assert [line.decode() for line in file] == LINES


def test_cut(tmp_path):
    """A compressed file that was cut short is not taken for a whole one."""
    (tmp_path / GZIP_ROWS).write_bytes(zipped(LINES)[:-100])
    with pytest.raises(EOFError), open_rows(tmp_path / GZIP_ROWS) as file:
        file.read()
