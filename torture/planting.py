"""Plant a mutant: one piece of source text is another one, for this process and its children, and no file is changed.

A plugin of pytest (`-p torture.planting`) and of the torture; THREADLINE_MUTANT names the mutant."""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from torture.mutants import ALL, Mutant

SRC = Path(__file__).parent.parent / "src" / "threadline"


def mutated(mutant: Mutant) -> str:
    """The text of its file, changed. Raises ValueError where the text to be changed does not stand there once."""
    text = (SRC / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def plant(mutant: Mutant) -> None:
    """Before the module is imported. SQL is read by one function, which is given the other text."""
    path, text = str(SRC / mutant.file), mutated(mutant)
    if path.endswith(".sql"):
        _plant_sql(path, text)
    else:
        _plant_code(path, text)


def _plant_code(path: str, text: str) -> None:
    get_code: Any = SourceFileLoader.get_code

    def get_mutated_code(loader: SourceFileLoader, name: str) -> Any:
        if os.path.realpath(loader.path) == os.path.realpath(path):
            return compile(text, path, "exec", dont_inherit=True)
        return get_code(loader, name)

    SourceFileLoader.get_code = get_mutated_code  # type: ignore[method-assign]
    read_text = Path.read_text  # what looks at the source shall see it, too

    def read_mutated_text(self: Path, *args: Any, **options: Any) -> str:
        return text if os.path.realpath(self) == os.path.realpath(path) else read_text(self, *args, **options)

    Path.read_text = read_mutated_text  # type: ignore[method-assign]


def _plant_sql(path: str, text: str) -> None:
    from threadline.backends import sql

    read: Any = sql._read

    def read_mutated(*parts: str) -> str:
        return text if os.path.join(sql._HERE, *parts) == path else read(*parts)

    sql._read = read_mutated


if name := os.environ.get("THREADLINE_MUTANT"):
    plant(ALL[name])
