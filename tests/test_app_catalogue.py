"""The demo's catalogues: any CSV with a header is read, a bad one is refused in one clear line."""

from __future__ import annotations

import collections
import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import catalogue
from demo.catalogue import CatalogueError, read
from demo.products import MAX_PRODUCTS, generate
from demo.remote_api import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

TITLES = ["Haldén Kettle, 1.5 l", "Mug", 'Screen 24" wide']


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "products.csv"


def table(
    titles: list[str], delimiter: str = ",", header: tuple[str, ...] = ("sku", "title", "price")
) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(header)
    writer.writerows((n, title, "9.90") for n, title in enumerate(titles))
    return text.getvalue()


@pytest.mark.parametrize("delimiter", list(catalogue.DELIMITERS))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_any_delimiter_and_encoding(file: Path, delimiter: str, encoding: str) -> None:
    """What spreadsheets export is read without being asked how it is written."""
    file.write_text(table(TITLES, delimiter), encoding=encoding, newline="")
    found = read(file)
    assert found.titles == TITLES
    assert "'title'" in found.source


def test_chinese_export(file: Path) -> None:
    """A Chinese spreadsheet's own encoding is told from Western text, and its column is known."""
    file.write_bytes("编号,商品名称\n1,不锈钢水壶 1.5升\n2,羊毛毯\n".encode("gb2312"))
    assert read(file).titles == ["不锈钢水壶 1.5升", "羊毛毯"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_blank_lines_and_quotes(file: Path, line_end: str) -> None:
    """Line ends of every system, blank lines and quoted fields that span lines are no obstacle."""
    lines = ["", "id,title", '1,"Mug, ""large""', 'and blue"', "", "2, Bowl ", ",", ""]
    file.write_bytes(line_end.join(lines).encode())
    assert read(file).titles == [f'Mug, "large"{line_end}and blue', "Bowl"]


def test_separator_line_of_excel(file: Path) -> None:
    """Excel's first line `sep=;` names the delimiter and is no header."""
    file.write_text("sep=;\r\nid;title\r\n1;Mug, blue\r\n", newline="")
    assert read(file).titles == ["Mug, blue"]


def test_rows_without_a_title_are_counted(file: Path) -> None:
    """Rows without a title are left out, and the source says how many."""
    file.write_text("id,title\n1,Mug\n2,\n3,  \n")
    found = read(file)
    assert found.titles == ["Mug"]
    assert "2 rows without a title left out" in found.source


@pytest.mark.parametrize(
    ("header", "wanted", "column"),
    [
        ("id,Product_Name,name of supplier", None, 1),
        ("name,title", None, 1),
        ("anything", None, 0),
        ("a,display name,b", None, 1),
        ("a,b,C", "c", 2),
        ("title,Title,b", "Title", 1),
        (",title,2024", None, 1),
    ],
)
def test_title_column(file: Path, header: str, wanted: str | None, column: int) -> None:
    """The column is the one asked for, else the obvious one."""
    row = [f"field {n}" for n in range(header.count(",") + 1)]
    file.write_text(f"{header}\n{','.join(row)}\n")
    assert read(file, title_column=wanted).titles == [f"field {column}"]


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"", {}, "is empty"),
        (b"\xef\xbb\xbf \n\n", {}, "names no column"),
        (b",,\n1,2,3\n", {}, "the first line reads '1', '2', '3'"),
        (b"id,title\n", {}, "no products under it"),
        (b"id,title\n1,\n2,\n", {}, "no title in any of its 2 rows"),
        (b"\x7fELF\0\0\0\x01", {}, "is not a text file"),
        (b"id,title\n1,\x81\xff\n", {}, "is not a text file in UTF-8"),
        (b"id,title\n1,Caf\xe9\n", {"encoding": "utf-8"}, "is not utf-8 text"),
        (b"id,title\n1,Mug\n", {"encoding": "klingon"}, "'klingon' is not an encoding"),
        (b"id,title,price\n1,Mug,2\n2,Bowl\n", {}, "line 3 has 2 fields, the header has 3"),
        (b"id,title\n1,Mug, blue\n", {}, "line 2 has 3 fields, the header has 2"),
        (b'id,title\n1,"Mug\n2,Bowl\n', {}, "is not CSV"),
        (b'id,title\n1,"Mug" blue\n', {}, "line 2 is not CSV"),
        (b"id,title\n1," + b"x" * 40_000 + b"\n", {}, "line 2 is not CSV: field larger"),
        (b"1,Mug,9.90\n2,Bowl,4\n", {}, "the first line reads '1', 'Mug', '9.90'"),
        (b"sku,price\n1,2\n", {}, "name one by --title-column"),
        (b"first name,last name\na,b\n", {}, "name one by --title-column"),
        (b"id,title\n1,Mug\n", {"title_column": "price"}, "no column 'price'; its columns are 'id', 'title'"),
        (b"title,id,title\na,1,b\n", {}, "has 2 columns named 'title'"),
        (b"title,id,title\na,1,b\n", {"title_column": "title"}, "has 2 columns named 'title'"),
    ],
)
def test_bad_file(file: Path, content: bytes, options: dict[str, str], says: str) -> None:
    """Each bad file is refused in one line that names it, what is wrong and what to do."""
    file.write_bytes(content)
    with pytest.raises(CatalogueError) as caught:
        read(file, **options)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 600


def test_missing_directory_and_endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no file, and what never ends, is refused without reading on."""
    for path, says in ((tmp_path / "none.csv", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(CatalogueError, match=says):
            read(path)
    large = tmp_path / "large.csv"
    large.write_text("id,title\n1,Mug\n2,Bowl\n")
    monkeypatch.setattr(catalogue, "MAX_BYTES", 10)
    with pytest.raises(CatalogueError, match="is larger than"):
        read(large)
    monkeypatch.undo()
    monkeypatch.setattr(catalogue, "MAX_ROWS", 1)
    with pytest.raises(CatalogueError, match="more than 1 products"):
        read(large)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever the bytes, the answer is titles or a CatalogueError of one line."""
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(data)
    message = "one line"
    try:
        assert all(read(path).titles)
    except CatalogueError as error:
        message = str(error)
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("records", [1, 12, 6_000])
def test_made_up_catalogue(records: int) -> None:
    """The same seed gives the same products, another one others; 8 % are there twice, and only those."""
    titles = generate(records, seed=1)
    assert titles == generate(records, seed=1)
    assert titles != generate(records, seed=2)
    assert len(titles) == records
    prints = collections.Counter(map(fingerprint, titles))
    assert records - len(prints) == records * 8 // 100


def test_made_up_catalogue_has_an_end() -> None:
    """More products than there are titles is an error that says how many there are."""
    for records in (0, MAX_PRODUCTS + 1):
        with pytest.raises(ValueError, match=f"1 to {MAX_PRODUCTS}"):
            generate(records, seed=1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Haldén Kettle 1.5 l, Sand", "SAND / kettle 1.5l - HALDEN", True),
        ("Salt & Pepper Mill", "pepper mill, salt and", True),
        ("Mug 250 ml", "Mug 260 ml", False),
        ("Mug 1.5 l", "Mug 15 l", False),
        ("水壶", "羊毛毯", False),
        ("???", "!!!", False),
        ("\ud800", "\ud801", False),
    ],
)
def test_fingerprint(one: str, other: str, same: bool) -> None:
    """Spelling does not count, the product does."""
    assert (fingerprint(one) == fingerprint(other)) is same
