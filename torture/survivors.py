"""Mutation testing of core/: change the code in every small way there is, and see whether a test notices.

    python -m torture.survivors core/view.py core/fold.py           # or all of core/, which takes hours
    python -m torture.survivors core/words.py --sample 40 --seed 2  # some of the changes, as dice fall

Each mutant lives in a forked child: the code of one function is swapped for the changed one, wherever it was imported
to, then random lives of a log (`torture.lives`) are led with it, and if they see nothing, the tests of its module, and
what the contract says of its topics. What survives is printed with its line: it is code that no test needs, a test that
is missing, or a change that changes nothing. No process is started for a mutant, so that thousands are affordable."""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import hypothesis.strategies  # noqa: F401 - here, so that no child has to
import psycopg  # noqa: F401
import pytest

import threadline.store
import threadline.testing.strategies  # noqa: F401
from torture import lives
from torture.runner import Unit

ROOT = Path(__file__).parent.parent
CONTRACT = ROOT / "src" / "threadline" / "testing" / "contract"
CLAIM = re.compile(r"^    def (test_\w+)", re.MULTILINE)  # read, not imported: pytest wants to do that
LIVES = 120
PATIENCE_S = 240  # of a busy machine
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.And: ast.Or, ast.Or: ast.And, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip


class Change(NamedTuple):
    line: int
    what: str
    apply: Callable[[ast.AST], None]  # to a copy of the node, in place
    node: ast.AST


# -- changes -------------------------------------------------------------------------------------------


def changes(tree: ast.Module) -> Iterator[Change]:
    """Every small change of the code inside of functions; docstrings and annotations are not code."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in {node: None for function in functions for node in _code_of(function)}:  # one in another is met twice
        yield from _changes_of(node)


def _code_of(function: ast.FunctionDef) -> Iterator[ast.AST]:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    for statement in body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.FunctionDef | ast.AnnAssign):
                yield node


def _changes_of(node: ast.AST) -> Iterator[Change]:
    line = getattr(node, "lineno", 0)
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield Change(line, f"{_word(op)} -> {_word(SWAPS[type(op)]())}", _set("ops", [SWAPS[type(op)]()]), node)
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPS:
            yield Change(line, f"{_word(op)} -> {_word(SWAPS[type(op)]())}", _set("op", SWAPS[type(op)]()), node)
        case ast.UnaryOp(op=ast.Not()):
            yield Change(line, "not x -> not not x", _set("operand", ast.UnaryOp(ast.Not(), node.operand)), node)
        case ast.Constant(value=bool(value)):
            yield Change(line, f"{value} -> {not value}", _set("value", not value), node)
        case ast.Constant(value=int(value)):
            yield Change(line, f"{value} -> {value + 1}", _set("value", value + 1), node)
        case ast.If() | ast.IfExp() | ast.While():
            yield Change(line, "a condition is false", _set("test", ast.Constant(False)), node)
            if not isinstance(node, ast.While):
                yield Change(line, "a condition is true", _set("test", ast.Constant(True)), node)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield Change(line, "returns nothing", _set("value", ast.Constant(None)), node)
        case ast.Continue():
            yield Change(line, "continue -> break", _become(ast.Break), node)


def _word(op: ast.AST) -> str:
    return type(op).__name__


def _set(name: str, value: Any) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, name, value)


def _become(kind: type[ast.AST]) -> Callable[[ast.AST], None]:
    def become(node: ast.AST) -> None:
        node.__class__ = kind

    return become


def changed(tree: ast.Module, change: Change) -> ast.Module:
    """A copy of the module with one change."""
    memo: dict[int, Any] = {}
    other = copy.deepcopy(tree, memo)
    change.apply(memo[id(change.node)])
    return ast.fix_missing_locations(other)


# -- planting ------------------------------------------------------------------------------------------


def plant(module: ModuleType, tree: ast.Module, path: Path) -> None:
    """Give every function of the module the code that it has in the tree: also where it was imported to by name."""
    codes = dict(_codes(compile(tree, str(path), "exec")))
    for function in _functions(module):
        if function.__code__.co_qualname in codes:
            function.__code__ = codes[function.__code__.co_qualname]
    for value in vars(module).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()  # answers from before


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        value = getattr(value, "__wrapped__", value)  # of a cached one
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for inner in vars(value).values():
                inner = getattr(inner, "fget", None) or getattr(inner, "__func__", inner)
                if isinstance(inner, FunctionType):
                    yield inner


# -- looking -------------------------------------------------------------------------------------------


def survives(module: ModuleType, tree: ast.Module, path: Path) -> bool:
    """Whether nothing notices, in a child of its own. One that hangs or crashes is noticed."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_S)
        code = 1
        try:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                plant(module, tree, path)
                code = 0 if _nothing_notices(path.stem) else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _nothing_notices(stem: str) -> bool:
    return (stem in UNLIVED or _lives_go_well()) and _tests_pass(_tests_of(stem)) and _tests_pass(_claims_about(stem))


def _lives_go_well() -> bool:
    return all(trial.wrong is None for trial in lives.trials(Unit(1, 0, LIVES), Path()))


def _tests_pass(names: list[str]) -> bool:
    return not names or pytest.main([*QUIETLY, *names]) == 0


def _tests_of(stem: str) -> list[str]:
    names = [f"tests/core/test_{stem}.py", *MORE_TESTS.get(stem, ())]
    return [name for name in names if (ROOT / name).exists()]


def _claims_about(stem: str) -> list[str]:
    """What the contract says of the topics that a module is about, for a store in memory."""
    claims = [name for topic in TOPICS.get(stem, ()) for name in CLAIM.findall((CONTRACT / f"{topic}.py").read_text())]
    return ["tests/contract/test_sqlite.py::TestMemory", "-k", " or ".join(claims)] if claims else []


QUIETLY = (
    "-x",
    "--assert=plain",
    "-q",
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-k",
    "not quarter and not long_session",
)  # slow ones

# Of what no life of a log makes use.
UNLIVED = {"about", "findable", "goals", "holds", "inbox", "questions", "ranking", "receipts", "searching", "snippets",
           "spending", "stems", "streams", "usage", "words"}  # fmt: skip
MORE_TESTS = {
    "legal": ("tests/context/test_broken_shapes.py",),
    "window": ("tests/context/test_window.py",),
    "tokens": ("tests/context/test_window.py",),
    "compaction": ("tests/context/test_planning.py",),
    "reading": ("tests/core/test_view.py", "tests/core/test_fold.py"),
    "entries": ("tests/core/test_digest.py", "tests/core/test_audit.py"),
    "ops": ("tests/core/test_compaction.py", "tests/core/test_fold.py", "tests/core/test_session_state.py"),
    "audit": ("tests/promises/test_planted.py",),
    **dict.fromkeys(("stems", "questions", "snippets", "ranking"), ("tests/core/test_words.py",)),
}
TOPICS = {
    "about": ("sessions", "listing"),
    "audit": ("view", "state"),
    "compaction": ("compaction",),
    "entries": ("log", "keys"),
    "goals": ("state",),
    "holds": ("leases",),
    "inbox": ("inbox",),
    "ops": ("log", "keys", "compaction", "calls", "state"),
    "reading": ("view", "log", "blobs"),
    "receipts": ("erasing",),
    "redaction": ("erasing",),
    "session_state": ("state",),
    "spending": ("usage",),
    "streams": ("drafts",),
    "tombstones": ("erasing",),
    "usage": ("usage",),
    "window": ("contexts",),
    **dict.fromkeys(("findable", "questions", "ranking", "searching", "snippets", "words", "stems"), ("search",)),
}


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    os.environ.setdefault("THREADLINE_SCALE", "0.05")  # of hypothesis: many mutants rather than many examples of each
    source = ROOT / "src" / "threadline"
    for path in [source / path for path in asked.paths] or sorted((source / "core").glob("[!_]*.py")):
        module = importlib.import_module(f"threadline.{path.parent.name}.{path.stem}")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not survives(module, tree, path):
            print(f"{path.name}: its tests fail without a change", flush=True)
            return 1
        found, survivors, began_s = list(changes(tree)), 0, time.monotonic()
        tried = _some(found, asked.sample, f"{asked.seed} {path.name}")
        for change in tried:
            if survives(module, changed(tree, change), path):
                survivors += 1
                print(f"{path.name}:{change.line}: {change.what}", flush=True)
        took = f"{time.monotonic() - began_s:.0f} s"
        print(f"{path.name}: {len(found)} changes, {len(tried)} tried, {survivors} survived, {took}", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torture.survivors", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", metavar="core/x.py", help="which modules; all of core/ by default")
    parser.add_argument("--sample", type=int, default=None, help="try so many changes of each module, not all")
    parser.add_argument("--seed", type=int, default=1, help="of the dice that choose them")
    return parser


def _some(found: list[Change], count: int | None, dice: str) -> list[Change]:
    """In the order of the file."""
    if count is None or count >= len(found):
        return found
    return [found[n] for n in sorted(Random(dice).sample(range(len(found)), count))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
