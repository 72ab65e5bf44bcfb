"""The documents tell the truth: every example runs, and shows what it really does."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import threadline
from threadline.backends import sql

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "threadline"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROSE = [*PAGES, *(ROOT / name for name in ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]


class Block(NamedTuple):
    """A fenced block of a page: its language, the line that it begins on, and what stands in it."""

    language: str
    line: int
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], text.count("\n", 0, found.start(2)) + 1, found[2])
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """An empty folder, and the names that the blocks of one page share. Stores are closed in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THREADLINE_HOME", str(tmp_path / "home"))
    names: dict[str, Any] = {"__name__": "page"}
    yield names
    for value in names.values():
        if isinstance(value, threadline.Store):
            value.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_does_what_the_page_shows(
    page: Path, workshop: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "THREADLINE_URL" in page.read_text(encoding="utf-8"):
        monkeypatch.setenv("THREADLINE_URL", request.getfixturevalue("postgres_url"))
    found = blocks(page)
    for block, following in zip(found, [*found[1:], None], strict=False):
        if block.language != "python":
            continue
        printed = _script(block) if block.text.startswith("# examples/") else _perform(block, page, workshop)
        if following is not None and following.language == "text":
            assert printed.rstrip() == following.text.rstrip(), f"{page.name}:{following.line}"


def _script(block: Block) -> str:
    """A block that names an example file is that file, and prints what it prints."""
    name, _, shown = block.text.partition("\n")
    file = ROOT / name.removeprefix("# ").strip()

    assert shown == file.read_text(encoding="utf-8"), f"{file} differs from what the page shows"
    return subprocess.run([sys.executable, file], capture_output=True, text=True, check=True, timeout=60).stdout


def _perform(block: Block, page: Path, names: dict[str, Any]) -> str:
    """Run a block statement by statement; what a `# ->` beside or below one shows must be what it gave."""
    shown = _arrows(block.text)
    tree = ast.parse(block.text)
    told = ""
    for statement, end in zip(tree.body, [*(s.lineno for s in tree.body[1:]), sys.maxsize], strict=True):
        place = f"{page.name}:{block.line + statement.lineno - 1}"
        expected = [text for line, text in shown if statement.lineno <= line < end]
        printed, given = _outcome(statement, names, place, forgiven=bool(expected))
        told += printed
        if expected:
            assert given == "\n".join(expected), place
    return told


def _outcome(statement: ast.stmt, names: dict[str, Any], place: str, *, forgiven: bool) -> tuple[str, str]:
    """What a statement printed, and what a reader is shown of it: that, its value, or its error."""
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), place, "eval"), names)
            else:
                exec(compile(ast.Module([statement], []), place, "exec"), names)
        except threadline.ThreadlineError as error:
            if not forgiven:
                raise
            return out.getvalue(), f"{type(error).__name__}: {error}"
    printed = out.getvalue()
    return printed, printed.rstrip("\n") if printed else repr(value)


def _arrows(code: str) -> list[tuple[int, str]]:
    """The comments that show an outcome: the line that each stands on, and its text."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return [(line, text[5:]) for line, text in comments if text.startswith("# -> ")]


def test_an_example_that_shows_something_else_is_found() -> None:
    wrong = Block("python", 1, "1 + 1  # -> 3\n")

    with pytest.raises(AssertionError, match=r"README\.md:1"):
        _perform(wrong, ROOT / "README.md", {})


def test_an_example_that_fails_is_found() -> None:
    wrong = Block("python", 1, "threadline.open(':memory:').get('nobody')\n")

    with pytest.raises(threadline.NotFound):
        _perform(wrong, ROOT / "README.md", {"threadline": threadline})


# -- what pages name, exists ---------------------------------------------------------------------------

PATHS = re.compile(r"(?<![\w/.])((?:tests|src|docs|examples|bench)/[\w./-]*\w|(?:core|backends|formats)/[\w/]+\.\w+)")


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = {name for name in PATHS.findall(text) if not any((base / name).exists() for base in _BASES)}

    assert missing == set()


_BASES = (ROOT, PACKAGE, ROOT / "docs")  # links are relative to their page


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    broken = []
    for path, anchor in links:
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(f"{path}#{anchor}")

    assert broken == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_make_command_that_a_page_names_is_a_target() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for page in PROSE for name in re.findall(r"`make (\w+)", page.read_text(encoding="utf-8"))}

    assert named <= targets


# -- what exists, pages name ---------------------------------------------------------------------------


def test_the_error_table_lists_every_error() -> None:
    table = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8").partition("## Errors")[2]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    public = [getattr(threadline, name) for name in threadline.__all__]
    errors = {it.__name__ for it in public if isinstance(it, type) and issubclass(it, threadline.ThreadlineError)}

    assert sorted(listed) == sorted(errors - {"ThreadlineError"})


def test_the_schema_page_names_every_table_and_column() -> None:
    page = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)^\)", sql.schema("sqlite"), re.MULTILINE | re.DOTALL):
        section = page.partition(f"### {table}\n")[2].partition("\n### ")[0]
        columns = re.findall(r"^    ([a-z]\w*) ", body, re.MULTILINE)

        assert [name for name in columns if f"`{name}`" not in section] == [], table


def test_the_layer_table_names_every_module() -> None:
    page = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    modules = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if file.name != "__init__.py"}
    told = {name for name in modules if f"`{name}`" in page or f"`{name.rpartition('/')[0]}/`" in page}

    assert modules - told == set()


def test_the_layer_table_stands_in_the_order_of_imports() -> None:
    page = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[ \w]*\| `([\w/.]+)` \|", page, re.MULTILINE)
    upward = [
        f"{name} imports {target}"
        for file in PACKAGE.rglob("*.py")
        for name in [str(file.relative_to(PACKAGE))]
        for target in _imported(file)
        if _row(rows, target) < _row(rows, name)
    ]

    assert len(rows) > 20
    assert upward == []


def _imported(file: Path) -> Iterator[str]:
    """The files of ours that a file imports from."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("threadline."):
            module = (node.module or "").removeprefix("threadline.").replace(".", "/")
            for found in (f"{module}.py", *(f"{module}/{alias.name}.py" for alias in node.names)):
                if (PACKAGE / found).exists():
                    yield found


def _row(rows: list[str], name: str) -> int:
    """The row of a file in the table: its own, or that of its folder. A package without one stands at the bottom."""
    fits = [row for row in rows if name == row or (row.endswith("/") and name.startswith(row))]
    return rows.index(fits[0]) if fits else len(rows)


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
