"""Mutants: for each promise a bug that breaks it, and the test that must see it.

    python -m torture --mutants                  # all of them
    python -m torture --mutants no-sync          # one

A mutant is a piece of source text and what stands there instead. It lives in one process (`torture.planting`); the
test, or the class of torture, must fail there, and a mutant that nothing catches is a hole in the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PATIENCE_S = 900  # a test that takes longer may hang because of the mutant, or the machine may be busy: nobody can tell
FAILED = 1  # of pytest and of the torture; other codes mean that nothing was tested


class Mutant(NamedTuple):
    name: str
    promise: str  # as it is called in docs/promises.md
    file: str  # within src/threadline
    old: str
    new: str
    caught_by: tuple[str, ...]  # arguments of pytest, or of the torture
    quick: bool = False  # one of those that CI plants

    @property
    def command(self) -> list[str]:
        if self.caught_by[0] == "torture":
            return [sys.executable, "-m", "torture", *self.caught_by[1:]]
        return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "torture.planting", "-p", "no:xdist", *self.caught_by]


MUTANTS = (
    Mutant(
        "no-sync",
        "power loss",
        "backends/sqlite/connections.py",
        '"full": "FULL"',
        '"full": "OFF"',
        ("tests/promises/test_power_loss.py",),
        quick=True,
    ),
    Mutant(
        "answers-before-the-shared-commit",
        "power loss",
        "backends/sqlite/backend.py",
        "                outcomes.append((job.run(connection), None))\n",
        "                outcomes.append((job.run(connection), None))\n"
        "                job.answer, job.done = outcomes[-1][0], True\n"
        "                wake(job)\n",
        ("tests/promises/test_power_loss.py", "-k", "threads"),
    ),
    Mutant(
        "forgets-the-wal",
        "kill -9",
        "backends/sqlite/backend.py",
        "                files.look(self._path, must_exist=self._read_only)\n",
        "                files.look(self._path, must_exist=self._read_only)\n"
        "                files._remove(self._path + '-wal')\n",
        ("tests/promises/test_kill.py", "-k", "one_thread"),
        quick=True,
    ),
    Mutant(
        "calls-a-failed-commit-harmless",
        "I/O errors",
        "backends/sqlite/backend.py",
        "job.fail(caused(_uncertain(answer, job.arguments), error))",
        "job.fail(caused(translated(error), error))",
        ("tests/promises/test_io_errors.py", "-k", "crash or our_words"),
        quick=True,
    ),
    Mutant(
        "takes-a-full-disk-for-stored",
        "full disk",
        "backends/sqlite/backend.py",
        "            job.fail(caused(translated(error), error))\n"
        "            return connection\n        except apsw.Error",
        "            job.answer, job.done = answer, True\n            return connection\n        except apsw.Error",
        ("tests/promises/test_io_errors.py", "-k", "full"),
    ),
    Mutant(
        "a-refusal-undoes-its-neighbours",
        "many writers",
        "backends/sqlite/backend.py",
        'connection.execute("ROLLBACK TO job")',
        'connection.execute("ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT job")',
        ("tests/promises/test_many_writers.py", "-k", "group"),
    ),
    Mutant(
        "expects-nothing",
        "many writers",
        "backends/sqlite/transactions.py",
        "if self._expect is not None and self._before.head != self._expect:",
        "if False:",
        ("tests/promises/test_many_writers.py", "-k", "expect"),
    ),
    Mutant(
        "forgets-its-keys",
        "keys",
        "backends/sqlite/transactions.py",
        "        if op.key is not None and entries:\n",
        "        if False:\n",
        ("tests/promises/test_many_writers.py", "-k", "key_that"),
        quick=True,
    ),
    Mutant(
        "knows-the-head-for-ever",
        "many writers",
        "backends/sqlite/transactions.py",
        "connection.head_at == connection.data_version() and",
        "True and",
        ("tests/promises/test_known_head.py",),
    ),
    Mutant(
        "a-child-keeps-its-parents-lock",
        "fork",
        "backends/sqlite/connections.py",
        "        if not closed:\n            self._in_child()\n",
        "",
        ("tests/promises/test_fork.py",),
    ),
    Mutant(
        "a-run-loses-its-last-entry",
        "the log stays whole",
        "core/view.py",
        "edge = seq if before else seq + 1",
        "edge = seq if before else seq + 2",
        ("tests/core/test_fold.py",),
        quick=True,
    ),
    Mutant(
        "skips-the-digest-when-reading",
        "damage",
        "core/entries.py",
        "            return looks_whole(digest, kind, at, key, tokens, usage, body)\n",
        "            return True\n",
        ("tests/promises/test_bit_flips.py",),
        quick=True,
    ),
    Mutant(
        "verify-skips-the-digest",
        "damage",
        "core/entries.py",
        "        if found != self.digest:\n",
        "        if False:\n",
        ("tests/promises/test_bit_flips.py", "tests/core/test_audit.py"),
    ),
    Mutant(
        "verify-skips-the-seals",
        "damage",
        "backends/sqlite/verify.py",
        "    if head_seal(number, namespace, own, *columns[:3]) != mark:\n",
        "    if False:\n",
        ("tests/promises/test_damage.py", "-k", "head"),
    ),
    Mutant(
        "never-moves-the-wal",
        "readers",
        "backends/sqlite/backend.py",
        "if self._wal_pages >= self._checkpoint_at:",
        "if False:",
        ("tests/promises/test_wal.py", "-k", "small or grow"),
    ),
    Mutant(
        "copies-the-file-alone",
        "backups",
        "backends/sqlite/files.py",
        'connection.execute("VACUUM INTO ?", (path,))',
        '__import__("shutil").copy(connection.filename, path)',
        ("tests/promises/test_backup.py",),
        quick=True,
    ),
    Mutant(
        "upgrades-in-pieces",
        "upgrades",
        "backends/sqlite/files.py",
        "                connection.execute(steps[step])\n",
        '                connection.execute(steps[step] + ";COMMIT; BEGIN IMMEDIATE")\n',
        ("tests/promises/test_upgrade.py", "-k", "killed or fails"),
    ),
    Mutant(
        "touches-what-is-not-ours",
        "upgrades",
        "backends/sqlite/files.py",
        "    if owner != APPLICATION_ID and not in_the_making:\n",
        "    if False:\n",
        ("tests/promises/test_upgrade.py", "-k", "not_ours"),
    ),
    Mutant(
        "stores-a-draft-at-its-end",
        "drafts",
        "drafts.py",
        "        if first and text and not full:\n            self._flusher.soon(self)\n",
        "",
        ("tests/promises/test_drafts.py",),
    ),
    Mutant(
        "leaves-the-letter-in-the-inbox",
        "inbox",
        "backends/sqlite/inbox.py",
        "            _remove(connection, ref, row[1])\n            return written\n",
        "            return written\n",
        ("tests/promises/test_inbox.py",),
    ),
    Mutant(
        "a-lost-lease-still-writes",
        "leases",
        "core/holds.py",
        "    elif live is None or live.token != token:\n",
        "    elif False:\n",
        ("tests/promises/test_leases.py",),
    ),
    Mutant(
        "a-follower-skips",
        "followers",
        "following.py",
        "        if entry is not None:\n            self.after = entry.seq\n",
        "        if entry is not None:\n            self.after = entry.seq + 1\n",
        ("tests/promises/test_follow.py",),
    ),
    Mutant(
        "revives-pickles",
        "no code",
        "core/digest.py",
        "from hashlib import sha256\n",
        "import pickle\nfrom hashlib import sha256\n",
        ("tests/test_house.py", "-k", "run_code"),
        quick=True,
    ),
    Mutant(
        "deletes-what-a-fork-shares",
        "deletion",
        "backends/sqlite/trees.py",
        "            run(connection, statement, (log, reach or 0))\n",
        "            run(connection, statement, (log, 0))\n",
        ("tests/contract/test_sqlite.py", "-k", "delet"),
    ),
    Mutant(
        "leaves-calls-unanswered",
        "contexts",
        "core/legal.py",
        "    if not in_order(gist_of(message) for _, message in clean):\n",
        "    if False:\n",
        ("tests/context/test_always_legal.py", "-k", "without_hypothesis"),
        quick=True,
    ),
    Mutant(
        "takes-any-conversation-for-a-legal-one",
        "contexts",
        "core/legal.py",
        "    return len(whole) == len(gists) and in_order(whole) and",
        "    return len(whole) == len(gists) or",
        ("tests/context/test_always_legal.py", "-k", "without_hypothesis"),
        quick=True,
    ),
    Mutant(
        "counts-a-request-twice",
        "usage",
        "backends/sqlite/usage.py",
        'known = None if new.id is None else one(connection, "find_request", (ref.tree, stored(new.id)))',
        "known = None",
        ("tests/contract/test_sqlite.py", "-k", "usage or request"),
    ),
    Mutant(
        "a-share-is-believed",
        "damage",
        "backends/sqlite/sessions.py",
        "        if seal(session, first, last, log) != mark:\n",
        "        if False:\n",
        ("tests/promises/test_bit_flips.py", "-k", "share"),
    ),
    Mutant(
        "a-server-may-answer-before-it-writes",
        "PostgreSQL: crashes",
        "backends/postgres/backend.py",
        'self._durable = durability == "full"',
        "self._durable = False",
        ("tests/promises/test_postgres_schema.py", "-k", "as_durable"),
    ),
    Mutant(
        "an-unkeyed-call-is-made-again",
        "PostgreSQL: faults",
        "backends/postgres/backend.py",
        "            if not keyed:\n                raise\n",
        "",
        ("tests/promises/test_postgres_faults.py", "-k", "lost_answer"),
    ),
    Mutant(
        "reads-the-head-without-its-lock",
        "PostgreSQL: many writers",
        "backends/sql/postgres/functions.sql",
        "SELECT * INTO h FROM threadline.head t WHERE t.tree = the_tree AND t.session = the_session FOR UPDATE;",
        "SELECT * INTO h FROM threadline.head t WHERE t.tree = the_tree AND t.session = the_session;",
        ("tests/promises/test_postgres_writers.py",),
    ),
    Mutant(
        "a-copy-leaves-the-inbox-behind",
        "copies",
        "backends/copying.py",
        "                self._target.enqueue(Target(there), letter)\n",
        "                pass\n",
        ("tests/promises/test_copy.py", "-k", "waits"),
    ),
    Mutant(
        "looks-for-a-key-in-every-tree",
        "PostgreSQL: trees",
        "backends/sql/postgres/functions.sql",
        "WHERE  s.tree = the_tree AND t.tree = the_tree AND s.session = the_session;\n"
        "            IF FOUND THEN\n                IF k.identity",
        "WHERE  s.session = the_session;\n            IF FOUND THEN\n                IF k.identity",
        ("tests/promises/test_postgres_trees.py", "-k", "append_function"),
    ),
    Mutant(
        "knows-only-the-keys-of-its-own-log",
        "PostgreSQL: keys",
        "backends/sql/postgres/functions.sql",
        "            IF NOT alone THEN\n",
        "            IF false THEN\n",
        ("tests/promises/test_postgres_appends.py", "-k", "both_ways"),
    ),
    Mutant(
        "takes-a-pooler-for-the-server",
        "PostgreSQL: poolers",
        "backends/postgres/connections.py",
        "connection.pooled = _is_pooled(connection)",
        "connection.pooled = False",
        ("tests/promises/test_postgres_pooler.py", "-k", "noticed"),
    ),
    Mutant(
        "a-backup-takes-each-session-as-it-comes",
        "PostgreSQL: backups",
        "backends/postgres/backend.py",
        "            then._source = moment\n",
        "",
        ("tests/promises/test_postgres_backup.py",),
    ),
    Mutant(
        "admits-every-tenant",
        "PostgreSQL: tenants",
        "backends/sql/postgres/tenants.sql",
        "USING (threadline.admitted(realm))'",
        "USING (true)'",
        ("tests/promises/test_postgres_tenants.py", "-k", "no_sql"),
    ),
    Mutant(
        "verify-believes-the-head-on-a-server",
        "PostgreSQL: damage",
        "backends/postgres/verify.py",
        "    if head_seal(tree, number, realm, own, *columns[:3]) != mark:\n",
        "    if False:\n",
        ("tests/promises/test_postgres_damage.py", "-k", "changed_value"),
    ),
    Mutant(
        "leaves-free-space-as-it-is",
        "erasing",
        "backends/sqlite/wiping.py",
        '                    if body[low:high].strip(b"\\0"):\n',
        "                    if False:\n",
        ("tests/promises/test_erase.py",),
    ),
    Mutant(
        "leaves-the-wal-as-it-is",
        "erasing",
        "backends/sqlite/wiping.py",
        "connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)",
        "connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)",
        ("tests/promises/test_erase.py",),
    ),
    Mutant(
        "keeps-no-room",
        "full disk",
        "backends/sqlite/reserve.py",
        "RESERVE_BYTES = 4 * 1024 * 1024",
        "RESERVE_BYTES = 0",
        ("tests/promises/test_full_disk.py",),
    ),
    Mutant(
        "an-import-forgets-what-it-cost",
        "exports",
        "records/loading.py",
        "record.agent, tokens, record.cost, record.given))",
        "record.agent, tokens, None, record.given))",
        ("tests/transcripts/test_jsonl.py", "-k", "the_same_file"),
    ),
    Mutant(
        "believes-every-line",
        "exports",
        "records/lines.py",
        "    if tail != b'%b%08x\"}' % (MARK, crc32(said)):\n",
        "    if False:\n",
        ("tests/transcripts/test_jsonl.py", "-k", "cut_off or changed_byte"),
    ),
    Mutant(
        "the-end-names-no-archive",
        "memory",
        "memory/promotion.py",
        "                archived.setdefault(row.addr)\n",
        "                pass\n",
        ("tests/contract/test_sqlite.py", "-k", "end or archive"),
    ),
    Mutant(
        "a-second-claim-wins",
        "memory",
        "memory/nodes.py",
        "    result = dict(old)\n    former",
        "    result = {}\n    former",
        ("tests/contract/test_sqlite.py", "-k", "claim"),
    ),
    Mutant(
        "misses-no-node",
        "memory",
        "memory/audit.py",
        "        if nodes != len(self._marks):\n",
        "        if False:\n",
        ("tests/promises/test_memory.py", "-k", "without_a_trace and file"),
    ),
    Mutant(
        "forgets-to-count",
        "memory",
        "backends/shelf.py",
        "total += weight(mark) - (0 if before is None else weight(before))",
        "total += weight(mark)",
        ("tests/contract/test_sqlite.py", "-k", "TestMemory and claim"),
    ),
    Mutant(
        "leaves-its-namespace",
        "namespaces",
        "store.py",
        "        within = _checked_namespace(namespace)\n",
        "        within = self.namespace\n",
        ("tests/contract/test_sqlite.py", "-k", "TestMemory and namespace"),
    ),
    Mutant(
        "prunes-unasked",
        "deletion",
        "store.py",
        "older_than: timedelta, dry_run: bool = True",
        "older_than: timedelta, dry_run: bool = False",
        ("tests/contract/test_sqlite.py", "-k", "TestMemory and pruning_only_plans"),
    ),
    Mutant(
        "an-importer-forgets-what-it-cannot-read",
        "hostile input",
        "transcripts/desk.py",
        "reported = sum(problem.length for problem in source.problems.values())",
        "reported = 0",
        ("torture", "readers", "--scale", "0.05"),
    ),
)

ALL = {mutant.name: mutant for mutant in MUTANTS}


def main(names: list[str]) -> int:
    """Plant each and say whether it was caught; 'quick' stands for those of CI."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names or ("quick" in names and mutant.quick)]
    survivors = []
    for mutant in chosen:
        began_s = time.monotonic()
        verdict = plant_and_look(mutant)
        print(f"{verdict:<10}{mutant.name:<36}{time.monotonic() - began_s:6.1f} s  {mutant.promise}", flush=True)
        if verdict != "caught":
            survivors.append(mutant.name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants caught" + f"; not: {survivors}" * bool(survivors))
    return 1 if survivors or not chosen else 0


def plant_and_look(mutant: Mutant) -> str:
    environment = {**os.environ, "THREADLINE_MUTANT": mutant.name}
    try:
        run = subprocess.run(
            mutant.command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "TOO SLOW"
    if run.returncode == FAILED:
        return "caught"
    if run.returncode:
        print(run.stdout[-2_000:], run.stderr[-2_000:], file=sys.stderr)
        return "broken"  # nothing was tested
    return "SURVIVED"
