"""Run the work on every peer and write docs/peers.md: python -m bench.peers [--only NAMES] [--docs FOLDER] [--again].

`--again` measures nothing and writes the page from the numbers of the last run."""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import child_ms
from bench.peers.page import page

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"
PEERS = (
    "threadline",
    "jsonl_file",
    "power_loop",
    "nanobot",
    "mycode",
    "openai_agents",
    "langgraph",
    "google_adk",
    "strands",
    "agno",
    "llm_logs",
)
WRITERS = 4
PATIENCE_S = 300  # for one piece of work, by the clock


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument("--only", default=",".join(PEERS), help="names of peers, with commas between them")
    parser.add_argument("--docs", type=Path, help="the folder of the documents, to publish there")
    parser.add_argument("--works", help="only these, such as append,together; the rest stays as it was")
    parser.add_argument("--again", action="store_true", help="only write the page anew")
    options = parser.parse_args(arguments)
    docs = options.docs or Path(tempfile.mkdtemp())
    (docs / "bench").mkdir(exist_ok=True)
    numbers = docs / "bench" / "peers.json"
    found: dict[str, Any] = json.loads(numbers.read_text()) if numbers.exists() else {"peers": {}}
    if not options.again:
        found["machine"] = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} shared cores, {platform.system()}"
        for name in options.only.split(","):
            measured = Measured(name).all(options.works.split(",") if options.works else None)
            found["peers"][name] = found["peers"].get(name, {}) | measured
            numbers.write_text(json.dumps(found, indent=1) + "\n")
    (docs / "peers.md").write_text(page(found))
    print(f"written: {docs / 'peers.md'}")
    return 0


class Measured:
    """One peer, and what its driver says of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told = constants(Path(__file__).with_name(f"{name}.py"))
        self.python = environment(name, self.told)

    def all(self, only: list[str] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {"versions": self.versions(), "durability": self.told["DURABILITY"]}
        works: dict[str, Callable[[], Any]] = {
            "import_ms": self.importing,
            "append": lambda: [self.run("append", size) for size in (0, 1_000, 10_000)],
            "syncs": self.syncs,
            "context": lambda: self.run("context", 100_000),
            "listing": lambda: self.run("listing", 10_000),
            "together": self.together,
            "disk": self.disk,
        }
        for work, measure in works.items():
            if only is not None and work not in only:
                continue
            try:
                found[work] = measure()
            except (subprocess.SubprocessError, ValueError) as error:
                found[work] = {"failed": failure(error)}
            print(f"{self.name:<14} {work:<10} {json.dumps(found[work])}", flush=True)
        return found

    def versions(self) -> dict[str, str]:
        script = f"from importlib.metadata import version; print({{n: version(n) for n in {self.told['PACKAGES']!r}}})"
        done = subprocess.run([self.python, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
        return dict(ast.literal_eval(done.stdout))

    def importing(self) -> float:
        """The import alone, over an empty process."""
        return min(child_ms(self.told["IMPORT"], self.python) for _ in range(4)) - min(
            child_ms("pass", self.python) for _ in range(3)
        )

    def run(self, work: str, number: int = 0, folder: Path | None = None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as fresh:
            command = self.command(work, folder or Path(fresh) / "store", number)
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=PATIENCE_S, cwd=ROOT, env=surroundings()
            )
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def command(self, work: str, folder: Path, number: int) -> list[str]:
        return [self.python, "-m", "bench.peers.harness", self.name, work, str(folder), str(number)]

    def syncs(self) -> float | None:
        """Counted by strace between 5 appends and 25, so that opening is not in it; None where there is no strace."""
        if shutil.which("strace") is None:
            return None
        return (self.traced(25) - self.traced(5)) / 20

    def traced(self, count: int) -> int:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as fresh:
            log = Path(fresh) / "strace"
            trace = ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=fsync,fdatasync,sync_file_range,sync,syncfs"]
            command = trace + self.command("appends", Path(fresh) / "store", count)
            subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S, cwd=ROOT, env=surroundings())
            return len(re.findall(r"\b(?:fsync|fdatasync|sync_file_range|sync|syncfs)\(", log.read_text()))

    def together(self) -> dict[str, Any]:
        """Four processes, fifty appends each, one session."""
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as fresh:
            store = Path(fresh) / "store"
            self.run("begin", folder=store)
            writers = [
                subprocess.Popen(
                    self.command("writer", store, n),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    cwd=ROOT,
                    env=surroundings(),
                )
                for n in range(WRITERS)
            ]
            told = [json.loads(writer.communicate(timeout=PATIENCE_S)[0].splitlines()[-1]) for writer in writers]
            left = self.run("survivors", folder=store)
        refused = [each["refused"] for each in told]
        count = sum(sum(each.values()) for each in refused)
        errors = sorted({name for each in refused for name in each})
        lost = WRITERS * 50 - count - left["stored"]
        return {"refused": count, "errors": errors, "lost": lost, "duplicated": left["duplicated"]}

    def disk(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as fresh:
            transcript(Path(fresh) / "transcript.jsonl")
            return self.run("disk", folder=Path(fresh))


def transcript(path: Path) -> None:
    """A coding session as role and text, the same for everybody: calls are told as text."""
    from bench.disk import coding_session
    from threadline.core import codec

    with path.open("w") as file:
        for message in coding_session(random.Random(7), 0.5):
            calls = [codec.encode(call).decode() for call in message.calls]
            role = "assistant" if message.role == "assistant" else "user"
            file.write(json.dumps({"role": role, "content": "\n".join([message.text, *calls])}) + "\n")


def constants(driver: Path) -> dict[str, Any]:
    """What a driver says of itself, without importing what it imports."""
    said = (node for node in ast.parse(driver.read_text()).body if isinstance(node, ast.Assign | ast.AnnAssign))
    found = {}
    for node in said:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and node.value is not None and target.id.isupper():
            found[target.id] = ast.literal_eval(node.value)
    return found


def environment(name: str, told: dict[str, Any]) -> str:
    """The interpreter of a peer's own environment, made if it is not there yet."""
    if not told["INSTALL"]:
        return sys.executable
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        version = told.get("PYTHON")
        base = sys.executable if version is None else shutil.which(f"python{version}") or f"python{version}"
        subprocess.run([base, "-m", "venv", str(python.parents[1])], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *told["INSTALL"]], check=True)
    return str(python)


def surroundings() -> dict[str, str]:
    """The environment of a peer's process: nobody phones home, and modules are compiled, as pip installs them."""
    quiet = {"AGNO_TELEMETRY": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1", "ANONYMIZED_TELEMETRY": "false"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | quiet


def failure(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done after {PATIENCE_S} s"
    last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
    return last[0][:200] if last else type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
