"""The seeds' own published code, asked what it shows.

Wheels come from PyPI into `.venv-seeds/` (or $THREADLINE_SEEDS), once, unpacked and never installed: their programs run
in a process of their own. Where PyPI is not to be had, the tests that need them are skipped, and say so."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HOME = Path(os.environ.get("THREADLINE_SEEDS") or Path(__file__).parents[2] / ".venv-seeds")
PROGRAMS = Path(__file__).parent / "programs"
# What the modules that we ask import: the packages themselves want far more.
NEEDS = {"nanobot-ai": ("loguru", "tiktoken", "filelock", "json-repair", "pydantic", "pydantic-settings")}
NEEDS |= {"mycode-sdk": ("typing-extensions",)}


def ask(package: str, version: str, program: str, *arguments: object, python: str = sys.executable) -> Any:
    """What a program in `programs/` prints as JSON, run with that version of the package."""
    paths = [unpacked(package, version), *(dependencies(package) if package in NEEDS else ())]
    home = tempfile.mkdtemp(prefix="threadline-seed-")  # some of them make folders in it when they are imported
    done = subprocess.run(
        [python, str(PROGRAMS / program), str(paths[0]), *map(str, arguments)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, paths)), "HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(home)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@cache
def unpacked(package: str, version: str) -> Path:
    """The folder that holds the package, as its wheel has it."""
    folder = HOME / f"{package}-{version}"
    with _alone():
        if not folder.exists():
            wheels = _downloaded(f"{package}=={version}")
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            for wheel in wheels.glob("*.whl"):
                zipfile.ZipFile(wheel).extractall(part)
            part.rename(folder)
            shutil.rmtree(wheels)
    return folder


@cache
def dependencies(package: str) -> tuple[Path, ...]:
    folder = HOME / f"{package}-needs-{sys.version_info.major}{sys.version_info.minor}"
    with _alone():
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            _pip("install", "--target", str(part), *NEEDS[package])
            part.rename(folder)
    return (folder,)


@cache
def newer_python() -> str | None:
    """An interpreter of 3.12 or later, which the newest mycode needs."""
    if sys.version_info >= (3, 12):
        return sys.executable
    here = sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3"))
    found = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    return next((name for name in (*map(str, here), *found) if name), None)


def _downloaded(requirement: str) -> Path:
    folder = HOME / "download"
    shutil.rmtree(folder, ignore_errors=True)
    _pip("download", "--no-deps", "--ignore-requires-python", "-d", str(folder), requirement)
    return folder


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"PyPI IS NOT TO BE HAD, so the seeds' own code was not asked: {done.stderr[-300:]}")


class _alone:  # one worker at a time fetches
    def __enter__(self) -> None:
        HOME.mkdir(parents=True, exist_ok=True)
        self._file = (HOME / "lock").open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *exc: object) -> None:
        self._file.close()
