"""Read a catalogue from any CSV file that has a header line.

The delimiter, the encoding and the column of the titles are found out where they are plain to see.
Where they are not, or the file is none such, `CatalogueError` says in one line what was found and what to do.
"""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo.products import generate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_BYTES = 64 << 20
MAX_ROWS = 1_000_000
MAX_FIELD = 32_768  # characters; also csv's own way to notice a quotation mark that is never closed

DELIMITERS = ",;\t|"
# Byte order marks first, the longer before the shorter that it begins with.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Then in turn, strictly: Western text hardly ever decodes as GB 2312, whose letters are pairs of high bytes.
ENCODINGS = ("utf-8", "gb2312", "cp1252")

TITLE_NAMES = (
    "title", "product title", "product name", "item name", "name", "product", "item", "description",
    "titel", "produktname", "bezeichnung", "artikel", "titre", "nom", "produit", "título", "nombre",
    "producto", "商品名称", "产品名称", "商品标题", "商品名", "产品名",
    "标题", "名称", "品名", "商品", "产品",
)  # fmt: skip


class CatalogueError(Exception):
    """The catalogue cannot be used; the message is one line for the person who named the file."""


@dataclass(frozen=True)
class Catalogue:
    """The products of one tenant.

    Attributes:
        source: where they come from, for people.
        titles: one for each product; product n is `titles[n - 1]`.
    """

    source: str
    titles: Sequence[str]


def generated(records: int, seed: int) -> Catalogue:
    """A made-up catalogue of `records` products, the same for the same `seed`."""
    return Catalogue(f"generated, seed {seed}", generate(records, seed))


def read(path: Path, *, title_column: str | None = None, encoding: str | None = None) -> Catalogue:
    """The products in a CSV file.

    Args:
        path: the file; the first line that is not blank names the columns.
        title_column: name of the column with the titles; None: guessed when it is obvious.
        encoding: of the file, as Python names it; None: by its byte order mark or by what fits.

    Raises:
        CatalogueError: the file is missing, empty, too large, not text, has no header, rows of different
            lengths, no title, or does not say which column holds the titles.
    """
    try:
        text, encoding = _decode(_bytes_of(path), encoding)
        first, titles, column = _titles(text, title_column)
    except CatalogueError as error:
        raise CatalogueError(f"{path}: {error}") from None
    left_out = f", {first - len(titles):,} rows without a title left out" if first > len(titles) else ""
    return Catalogue(f"{path.name}, column {column!r}, read as {encoding}{left_out}", titles)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:  # at most so many bytes: the path may name a device that never ends
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise CatalogueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise CatalogueError(f"is larger than {MAX_BYTES >> 20} MiB, the most that the demo reads")
    if not data.strip():
        raise CatalogueError("is empty; a header line and one line for each product are needed")
    return data


def _decode(data: bytes, encoding: str | None) -> tuple[str, str]:
    marked = next((name for mark, name in MARKS if data.startswith(mark)), None)
    for name in (encoding or marked,) if encoding or marked else ENCODINGS:
        assert name is not None
        try:
            text = data.decode(name)
        except UnicodeError:
            continue
        except LookupError:
            raise CatalogueError(
                f"{name!r} is not an encoding that Python knows; utf-8 and gb18030 are"
            ) from None
        if "\0" in text:
            raise CatalogueError(
                "is not a text file: there are NUL characters in it (UTF-16? name its --encoding)"
            )
        return text, "utf-8" if name == "utf-8-sig" else name
    tried = encoding or marked
    raise CatalogueError(
        f"is not {tried} text"
        if tried
        else "is not a text file in UTF-8, GB 2312 or cp1252; name its --encoding"
    )


def _titles(text: str, title_column: str | None) -> tuple[int, list[str], str]:
    """How many rows there are, the titles in them and the name of their column."""
    delimiter, text = _delimiter(text)
    rows = _rows(text, delimiter)
    _, header = next(rows, (0, []))
    header = [name.strip() for name in header]
    if not any(header):
        raise CatalogueError("has no header: its first line names no column")
    index = _column(header, title_column)
    count, titles = 0, []
    for line, row in rows:
        if len(row) != len(header):
            raise CatalogueError(
                f"line {line} has {len(row)} fields, the header has {len(header)} (delimiter {delimiter!r})"
            )
        count += 1
        if count > MAX_ROWS:
            raise CatalogueError(f"has more than {MAX_ROWS:,} products, the most that the demo reads")
        if title := row[index].strip():
            titles.append(title)
    if not count:
        raise CatalogueError("has a header and no products under it")
    if not titles:
        raise CatalogueError(f"has no title in any of its {count:,} rows: column {header[index]!r} is empty")
    return count, titles, header[index]


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its last line."""
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise CatalogueError(
            f"line {reader.line_num} is not CSV: {error}; is a quotation mark missing?"
        ) from None


def _delimiter(text: str) -> tuple[str, str]:
    """The delimiter by which most of the first rows are as long as the header, and the text it is for."""
    first, _, rest = text.partition("\n")
    if first.lower().startswith("sep=") and len(first.rstrip("\r")) == 5:  # how Excel says it
        return first[4], rest

    def fit(delimiter: str) -> tuple[int, int]:
        lengths = []
        try:
            for _, row in _rows(text[: 1 << 16], delimiter):
                lengths.append(len(row))
                if len(lengths) == 50:
                    break
        except CatalogueError:  # so it is not this one, or the sample was cut within a quotation
            pass
        if not lengths or lengths[0] < 2:
            return 0, 0
        return sum(length == lengths[0] for length in lengths), lengths[0]

    return max(DELIMITERS, key=fit), text


def _column(header: list[str], wanted: str | None) -> int:
    """Index of the column with the titles: the one that was asked for, or the obvious one."""
    names = [name.casefold() for name in header]
    listed = ", ".join(repr(name[:40]) for name in header[:20]) + (", …" if len(header) > 20 else "")
    if wanted is not None:
        found = [n for n, name in enumerate(header) if name == wanted.strip()] or [
            n for n, name in enumerate(names) if name == wanted.strip().casefold()
        ]
        if not found:
            raise CatalogueError(f"has no column {wanted!r}; its columns are {listed}")
    elif len(header) == 1:
        found = [0]
    else:
        plain = [name.replace("_", " ").replace("-", " ") for name in names]
        known = next((title for title in TITLE_NAMES if title in plain), None)
        found = [n for n, name in enumerate(plain) if name == known]
        found = found or [n for n, name in enumerate(plain) if {"title", "name"} & set(name.split())]
        if not found or (known is None and len(found) > 1):
            raise CatalogueError(
                "does not say which column holds the titles: name one by --title-column, or add a header; "
                f"the first line reads {listed}"
            )
    if len(found) > 1:
        raise CatalogueError(
            f"has {len(found)} columns named {header[found[0]]!r}; give them different names"
        )
    return found[0]
