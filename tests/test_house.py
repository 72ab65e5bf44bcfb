"""The house keeps its rooms: imports point downward, the front door is exact, and nothing dangerous moves in."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import threadline

ROOT = Path(threadline.__file__).parent

# Each room, and the rooms below it that it may open. "" is the public API, threadline itself.
MAY_USE = {
    "errors": set[str](),
    "messages": {"errors"},
    "core": {"errors", "messages"},
    "formats": {"core", "errors", "messages"},
    "tokenizers": {"core", "errors", "messages"},
    "memory": {"core", "errors"},
    "backends": {"memory", "core", "errors", "messages"},
    "pen": {"formats", "core", "errors", "messages"},
    "context": {"formats", "core", "errors", "messages"},
    "postgres": {"backends", "errors"},
    "leases": {"backends", "core", "errors", "pen"},
    "drafts": {"core", "errors", "messages", "pen"},
    "following": {"backends", "core", "errors", "pen"},
    "info": {"backends", "core", "errors"},
    "batch": {"core", "errors", "messages", "pen"},
    "session": {
        "backends",
        "batch",
        "context",
        "core",
        "drafts",
        "errors",
        "following",
        "info",
        "leases",
        "messages",
        "pen",
    },
    "anchoring": {"memory", "errors"},
    "working_memory": {"anchoring", "memory", "core", "errors", "pen"},
    "hits": {"backends", "core", "errors", "info", "messages", "pen"},
    "store": {
        "backends",
        "core",
        "errors",
        "messages",
        "pen",
        "session",
        "drafts",
        "following",
        "hits",
        "info",
        "working_memory",
    },
    "aio": {
        "batch",
        "info",
        "working_memory",
        "memory",
        "backends",
        "core",
        "errors",
        "messages",
        "pen",
        "session",
        "store",
        "leases",
        "drafts",
        "following",
        "hits",
    },
    "__init__": {
        "working_memory",
        "memory",
        "formats",
        "tokenizers",
        "postgres",
        "records",
        "transcripts",
        "aio",
        "backends",
        "context",
        "core",
        "errors",
        "messages",
        "session",
        "store",
        "leases",
        "drafts",
        "hits",
    },
    "records": {"backends", "core", "errors", "memory", "messages", "session", "store", "working_memory"},
    "transcripts": {"", "records", "formats"},
    "server": {""},
    "__main__": {"cli"},
    "cli": {"server", "", "transcripts"},
    "testing": {"", "formats", "backends", "core", "errors", "messages", "pen", "session", "store", "aio"},
}
FORBIDDEN_IMPORTS = {"sqlite3", "pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "ctypes"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
SOURCES = sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, those only for type checkers left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from names if node.module == "threadline" else [node.module]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def opened_room(module: str) -> str | None:
    """The room of ours that a module name leads to; None for somebody else's."""
    first, _, rest = module.partition(".")
    if first != "threadline":
        return None
    name = rest.partition(".")[0]
    return name if name in MAY_USE else ""


def test_imports_point_downward() -> None:
    upward = [
        f"{path.relative_to(ROOT)} opens {name}"
        for path in SOURCES
        for name in imports(path)
        if opened_room(name) not in {None, room(path), *MAY_USE[room(path)]}
    ]

    assert upward == []


def test_the_core_does_no_io() -> None:
    outside = {
        "apsw",
        "os",
        "io",
        "socket",
        "pathlib",
        "time",
        "random",
        "secrets",
        "threading",
        "asyncio",
        "subprocess",
    }
    found = [(p.name, n) for p in SOURCES if room(p) == "core" for n in imports(p) if n.partition(".")[0] in outside]

    assert found == []


def test_all_is_exact_and_sorted() -> None:
    public = {name for home in threadline._HOMES.values() for name in home}

    assert threadline.__all__ == sorted(public)
    assert all(getattr(threadline, name) is not None for name in threadline.__all__)


def test_every_name_lives_where_the_front_door_says() -> None:
    for home, names in threadline._HOMES.items():
        module = importlib.import_module(home)
        for name in names:
            assert getattr(module, name) is getattr(threadline, name)


def test_type_checkers_see_the_same_front_door() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    seen = [alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    assert sorted(filter(None, seen)) == sorted([*threadline.__all__, *threadline._ROOMS])


def test_a_public_room_opens_when_it_is_first_used() -> None:
    script = "import threadline; print(threadline.formats.FORMATS)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "anthropic" in done.stdout


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = threadline.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_stored_data_can_run_code(path: Path) -> None:
    """No stdlib sqlite3 (two copies of SQLite in a process drop each other's locks), no pickle, no eval."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}

    assert not FORBIDDEN_IMPORTS & {name.partition(".")[0] for name in imports(path)}
    assert not FORBIDDEN_CALLS & called


def test_importing_threadline_imports_nothing_heavy() -> None:
    script = "import sys, threadline; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert not {"apsw", "msgspec", "asyncio", "click"} & set(loaded)


def test_help_loads_no_command_and_no_store() -> None:
    script = "import sys; from threadline.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert not {"apsw", "msgspec", "asyncio", "threadline.cli.demo"} & set(loaded)


def test_a_store_needs_no_event_loop() -> None:
    script = "import sys, threadline; threadline.open(':memory:').new().append('hi'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert "asyncio" not in loaded
