from __future__ import annotations

import codecs

import pytest
from hypothesis import given, strategies as st

from spark_queue.ingest.file_handler import TextScan


def _scan(data: bytes, *, chunk: int = 1 << 20, declared: str | None = None) -> TextScan:
    scan = TextScan(data[:chunk], declared)
    for start in range(0, len(data), chunk):
        scan.feed(data[start : start + chunk])
    scan.feed(b"", final=True)
    return scan


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"plain", "utf-8"),
        ("grüße".encode(), "utf-8"),
        (codecs.BOM_UTF8 + b"a", "utf-8-sig"),
        ("a\nb".encode("utf-16"), "utf-16"),
        (codecs.BOM_UTF16_BE + "a\nb".encode("utf-16-be"), "utf-16"),
        ("a\nb".encode("utf-32"), "utf-32"),
        ("grüße".encode("latin-1"), "iso-8859-1"),
        (b"\x1b[1mbold\x1b[0m\f\a", "utf-8"),
        (b"\x7fELF\x02\x01\x01\x00", None),
        (b"text\x00", None),
        (codecs.BOM_UTF16_LE + b"odd", None),
    ],
)
def test_encoding_is_told_by_the_bytes(data: bytes, encoding: str | None) -> None:
    """Marks, UTF-8, Latin-1 and binary are told apart."""
    assert _scan(data).encoding == encoding


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2), ("a\r\nb\r\n", 2), ("a\rb", 2)],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_lines_are_counted_in_every_encoding(text: str, lines: int, encoding: str) -> None:
    """A line ends with LF, CR LF or CR, and the last one needs no end."""
    assert _scan(text.encode(encoding)).lines == lines


def test_binary_has_no_lines() -> None:
    """A line count of bytes that are no text would mean nothing."""
    assert _scan(b"\x00\n\n").lines is None


def test_utf8_that_breaks_late_falls_back() -> None:
    """A single wrong byte at the end makes the whole file Latin-1, lines included."""
    scan = _scan(b"a\n" * 1000 + b"\xff", chunk=64)

    assert (scan.encoding, scan.lines) == ("iso-8859-1", 1001)


def test_cut_sign_at_the_end_is_no_utf8() -> None:
    """A file that ends inside a UTF-8 sign is not UTF-8."""
    assert _scan("ü".encode()[:1]).encoding == "iso-8859-1"


def test_declared_encoding_is_the_only_one_tried() -> None:
    """What a source declares is used, and bytes that do not fit it leave the encoding open."""
    assert _scan("é\n".encode("cp1252"), declared="cp1252").encoding == "cp1252"
    assert _scan(b"\xff\xff", declared="utf-8").encoding is None


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\r\n")), st.data())
def test_chunks_do_not_matter(text: str, data: st.DataObject) -> None:
    """However a file is cut, encoding and lines are those of the whole."""
    raw = text.encode(data.draw(st.sampled_from(["utf-8", "utf-16"])))
    whole, cut = _scan(raw), _scan(raw, chunk=data.draw(st.integers(4, 9)))

    assert (cut.encoding, cut.lines) == (whole.encoding, whole.lines)
    assert whole.lines == len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - (
        text == "" or text[-1] in "\r\n"
    )
