"""Whole lives of sessions on a real file, against a model that shares no code with the store.

After every step everything that a session says of itself is compared with the model: the log, the view now and at past
moments, windows, open calls, the unanswered turn, counts and tokens, its family and what it spent. What the model
refuses must be refused with the same error and write nothing, and `verify`, which folds the bare log anew, must agree
with all that is stored.

A failure prints the steps and the line that replays them; THREADLINE_SEED and THREADLINE_SCALE vary the run."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import threadline
from threadline import Goal, Lease, LeaseHeld, LeaseLost, Message, NotFound, Plan, Session, ThreadlineError, Usage
from threadline.testing import scaled, seed, strategies
from threadline.testing.families import Families
from threadline.testing.model import Line, Model
from threadline.testing.strategies import Place, Step, resolve

HISTORIES = 150
STEPS = 30
MAX_DEPTH = 2
STRUCTURAL = ("compaction", "replacement", "expansion", "rewind", "clear")
DERIVED = ("before", "whole", "of", "started_at", "completed_at")  # of a state or goal, by which it is found quickly
GOAL = ("objective", "summary", "status", "recap")
A_DAY_S = 24 * 3600.0


def count_tokens(message: Message) -> int:
    return 1 + len(message.text) + 3 * len(message.calls)


@seeded(seed())
class Sessions(RuleBasedStateMachine):
    """Some sessions in one store, forks of one another, each beside its model."""

    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="threadline-"))
        self.path = self.folder / "0.db"
        self.abandoned: list[threadline.Store] = []
        self.store = self._open()
        self.models: dict[str, Model] = {}
        self.families = Families(MAX_DEPTH)
        self.deleted: list[Session] = []
        self.plans: dict[str, Plan] = {}
        self.leases: dict[str, Lease] = {}
        self.touched = ""
        self.steps = 0

    def _open(self) -> threadline.Store:
        return threadline.open(self.path, durability="relaxed", count_tokens=count_tokens, max_depth=MAX_DEPTH)

    def teardown(self) -> None:
        for store in (*self.abandoned, self.store):
            store.close()
        shutil.rmtree(self.folder)

    # -- sessions --------------------------------------------------------------------------------------

    @initialize(target=sessions)
    def first(self) -> str:
        return self._keep(self.store.new(), Model(count_tokens))

    @rule(target=sessions)
    def made_by_key_at_first_append(self) -> str:
        session = self.store.session(f"key {len(self.models) + len(self.deleted)}")
        assert (session.id, session.head, session.pending, session.unanswered) == (None, 0, [], None)
        assert session.repair() == []
        model = Model(count_tokens)
        model.append(Message.user("first"))
        session.append("first")
        return self._keep(session, model)

    @rule(target=sessions, id=sessions, at=st.none() | strategies.places("entry"))
    def fork(self, id: str, at: Place | None) -> str:
        id, session, model = self._one(id)
        place = model.head if at is None else resolve(at, model)
        try:
            copy = model.fork(place)
        except ThreadlineError as error:
            refused(lambda: session.fork(at=place), error)
            return id
        fork = session.fork(at=None if at is None else place)
        assert fork.info.origin == (id, place)
        assert [f.id for f in session.forks()][-1] == fork.id
        return self._keep(fork, copy, origin=id)

    def _keep(self, session: Session, model: Model, origin: str | None = None) -> str:
        assert session.id is not None
        self.models[session.id] = model
        if session.id not in self.families.members:
            self.families.add(session.id, origin)
        self.touched = session.id
        return session.id

    def _one(self, id: str) -> tuple[str, Session, Model]:
        """The session of that id, or another one where it was deleted."""
        self.touched = id = id if id in self.models else next(iter(self.models))
        return id, self.store.get(id), self.models[id]

    # -- families --------------------------------------------------------------------------------------

    @rule(
        target=sessions,
        id=sessions,
        lifecycle=st.sampled_from(["ephemeral", "linked", "detached"]),
        call_id=st.sampled_from([None, "c1", "c2"]),
    )
    def spawn(self, id: str, lifecycle: str, call_id: str | None) -> str:
        id, session, _ = self._one(id)
        known = self.families.known(id, call_id)
        if known is None:
            try:
                self.families.check(id)
            except ThreadlineError as error:
                refused(lambda: session.spawn(lifecycle=lifecycle, call_id=call_id), error)
                return id
        child = session.spawn("sub", lifecycle=lifecycle, call_id=call_id)
        assert child.id is not None
        if known is not None:
            assert child.id == known
            return known
        self.families.spawn(id, child.id, lifecycle, call_id)
        return self._keep(child, Model(count_tokens))

    @rule(id=sessions, request_id=st.sampled_from([None, "r1", "r2", "r3"]), tokens=st.integers(0, 9))
    def record_usage(self, id: str, request_id: str | None, tokens: int) -> None:
        id, session, _ = self._one(id)
        self.families.record(id, request_id, tokens)
        session.record_usage(input=tokens, request_id=request_id)

    @rule(id=sessions, cascade=st.booleans())
    def delete(self, id: str, cascade: bool) -> None:
        """Whatever others share of it stays, as the comparisons that follow will see."""
        id, session, _ = self._one(id)
        doomed = self.families.doomed(id, cascade)
        if len(doomed) == len(self.models):
            return
        handles = [self.store.get(goner) for goner in doomed]
        assert self.store.delete(session, cascade=cascade) == len(self.families.delete(id, cascade))
        for goner in doomed:
            del self.models[goner]
        self.deleted += handles
        self.touched = next(iter(self.models))
        assert self.store.stats()["sessions"] == len(self.models)

    # -- writes, one by one ----------------------------------------------------------------------------

    @rule(id=sessions, step=strategies.appends() | strategies.extends())
    def say(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, said=strategies.messages())
    def say_anything(self, id: str, said: Message) -> None:
        self._do(id, Step("append", {"message": said}))

    @rule(id=sessions, step=strategies.notes())
    def note(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.compactions())
    def compact(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.replacements())
    def replace(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.expansions())
    def expand(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.rewinds())
    def rewind_or_clear(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.states() | strategies.goals())
    def set_state_or_goal(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.tool_steps())
    def start_or_repair(self, id: str, step: Step) -> None:
        self._do(id, step)

    @rule(id=sessions, step=strategies.steps(), off=st.sampled_from([0, 0, -1, 1]))
    def with_expect(self, id: str, step: Step, off: int) -> None:
        id, _, _ = self._one(id)
        self._do(id, step, expect=self.models[id].head + off)

    def _do(self, id: str, step: Step, **more: Any) -> None:
        """The same call on both sides: the same entries, or the same refusal."""
        id, session, model = self._one(id)
        verb, options = step.resolved(model)
        call = partial(getattr(session, verb), **options, **more, lease=None if model.fenced else self.leases.get(id))
        try:
            expected = getattr(model, verb)(**options, **more)
        except ThreadlineError as error:
            refused(call, error)
            return
        wrote = call()
        if not isinstance(wrote, list):  # a replacement answers with its own entry, not with those it placed
            wrote, expected = [wrote], expected[-1:]
        assert [plain(entry) for entry in wrote] == [plain_line(model, line) for line in expected]

    # -- who may write, and what waits -----------------------------------------------------------------

    @rule(id=sessions)
    def lease(self, id: str) -> None:
        """Every second time it is given back; through the store as it is now, which may be another one since."""
        id, session, model = self._one(id)
        if (held := self.leases.pop(id, None)) is None:
            self.leases[id] = session.lease(f"holder {self.steps}", ttl=A_DAY_S)
            model.holder = self.leases[id].holder
        else:
            refused(lambda: session.lease("another"), LeaseHeld("", held.until))
            session._backend.release_lease(session._made(), held.token)
            model.holder = None
            refused(lambda: session.clear(lease=held), LeaseLost("", None))

    @rule(id=sessions, step=strategies.steps())
    def without_the_lease(self, id: str, step: Step) -> None:
        id, _, model = self._one(id)
        model.fenced = True
        try:
            self._do(id, step)
        finally:
            model.fenced = False

    @rule(id=sessions, message=strategies.spoken(), key=st.none() | st.sampled_from(strategies.KEYS))
    def enqueue(self, id: str, message: Message, key: str | None) -> None:
        id, session, model = self._one(id)
        try:
            model.enqueue(message, key)
        except ThreadlineError as error:
            refused(lambda: session.enqueue(message, key), error)
            return
        assert session.enqueue(message, key).message == message

    @rule(id=sessions, off=st.sampled_from([None, None, 0, 1]))
    def take(self, id: str, off: int | None) -> None:
        id, session, model = self._one(id)
        expect, lease = None if off is None else model.head + off, self.leases.get(id)
        try:
            expected = model.take(expect=expect)
        except ThreadlineError as error:
            refused(lambda: session.take(expect=expect, lease=lease), error)
            return
        entry = session.take(expect=expect, lease=lease)
        wrote = [] if entry is None else [plain(entry)]
        assert wrote == [plain_line(model, line) for line in expected]

    # -- writes together -------------------------------------------------------------------------------

    @rule(id=sessions, steps=st.lists(strategies.steps(), min_size=1, max_size=4), off=st.sampled_from([None, 0, 1]))
    def batch(self, id: str, steps: list[Step], off: int | None) -> None:
        id, session, model = self._one(id)
        trial = model.trial()
        resolved: list[Step] = []
        error = None
        for step in steps:
            resolved.append(step.resolved(trial))
            try:
                expect = None if off is None else trial.head + off
                getattr(trial, resolved[-1].verb)(**resolved[-1].options, expect=expect)
            except ThreadlineError as refusal:
                error = refusal
                break

        def act() -> None:
            expect = None if off is None else model.head + off
            with session.batch(expect=expect, lease=self.leases.get(id)) as b:
                for verb, options in resolved:
                    getattr(b, verb)(**options)

        if error is not None:
            refused(act, error)
        else:
            act()
            self.models[id] = trial

    @rule(id=sessions, step=strategies.steps())
    def batch_that_fails(self, id: str, step: Step) -> None:
        id, session, model = self._one(id)
        try:
            with session.batch() as b:
                b.append("never written")
                raise RuntimeError
        except RuntimeError:
            pass
        assert session.head == model.head

    # -- compaction by function and by plan ------------------------------------------------------------

    @rule(
        id=sessions,
        since=st.none() | strategies.places("visible"),
        upto=st.none() | strategies.places("visible"),
        meddle=st.none() | strategies.appends() | strategies.steps(),
    )
    def compact_by_function(self, id: str, since: Place | None, upto: Place | None, meddle: Step | None) -> None:
        """The function runs outside of any transaction, so it may write to the session itself."""
        id, session, model = self._one(id)
        bounds = {"since": resolve(since, model), "upto": resolve(upto, model)}
        given: list[Message] = []
        lease = self.leases.get(id)

        def summarise(messages: list[Message]) -> str:
            given.extend(messages)
            if step is not None:
                getattr(session, step.verb)(**step.options, lease=lease)
            return "summed up"

        step = None
        try:
            planned_at = model.head
            run = model.run(**bounds, keep_turns=None)
            said = [line.message for line in run if line.message is not None]
            step = meddle.resolved(model) if meddle is not None else None
            if step is not None:
                getattr(model, step.verb)(**step.options)
            model.fold_exactly("summed up", [line.seq for line in run], said, planned_at=planned_at)
        except ThreadlineError as error:
            refused(lambda: session.compact(summarise, **bounds, lease=lease), error)
            return
        session.compact(summarise, **bounds, lease=lease)
        assert given == said

    @rule(id=sessions, since=strategies.places("visible"), upto=strategies.places("visible"), exact=st.booleans())
    def plan(self, id: str, since: Place, upto: Place, exact: bool) -> None:
        """A plan for later: a run that may be folded now, or just any stretch."""
        id, _, model = self._one(id)
        try:
            run = model.run(resolve(since, model), resolve(upto, model), None) if exact else model.visible()
        except ThreadlineError:
            return
        if run:
            messages = tuple(line.message for line in run if line.message is not None)
            self.plans[id] = Plan(run[0].seq, run[-1].seq, messages, 0)

    @rule(id=sessions)
    def compact_by_plan(self, id: str) -> None:
        id, session, model = self._one(id)
        plan = self.plans.pop(id, None)
        if plan is None:
            return
        try:
            model.fold_exactly("planned", (plan.since, plan.upto), plan.messages)
        except ThreadlineError as error:
            refused(lambda: session.compact("planned", plan, lease=self.leases.get(id)), error)
            return
        session.compact("planned", plan, lease=self.leases.get(id))

    # -- the store comes and goes ----------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self._open()

    @rule()
    def crash_and_reopen_in_place(self) -> None:
        """The old handle is dropped as it is, with its WAL, and never closed."""
        self.abandoned.append(self.store)
        self.store = self._open()

    @rule()
    def crash_and_reopen_a_copy(self) -> None:
        """What a machine that died would find: the file and its WAL, and nothing else."""
        copy = self.folder / f"{self.steps}-copy.db"
        for suffix in ("", "-wal"):
            source = Path(f"{self.path}{suffix}")
            if source.exists():
                shutil.copyfile(source, f"{copy}{suffix}")
        for store in (*self.abandoned, self.store):
            store.close()
        self.abandoned = []
        self.path = copy
        self.store = self._open()

    # -- what must hold after every step ---------------------------------------------------------------

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        self.steps += 1
        thorough = self.steps % 6 == 0
        for id, model in self.models.items():
            if thorough or id == self.touched:
                compare(self.store.get(id), model, Random(self.steps))
            else:
                assert self.store.get(id).head == model.head
        if thorough:
            assert self.store.verify().problems == []
            self._compare_families()

    def _compare_families(self) -> None:
        families = self.families
        for id in self.models:
            session = self.store.get(id)
            info = session.info
            assert [child.id for child in session.children()] == families.children(id)
            assert (info.parent, info.depth) == (families.members[id].parent, families.depth(id))
            assert sorted(node.id for node in session.tree()) == sorted(families.below(id))
            assert spent(session.usage()) == families.spent(id)
            assert spent(session.usage(children=True)) == families.spent(*families.below(id))
            assert spent(session.usage()) == (sum(r.input for r in session.requests()), len(session.requests()))
        for order in ("updated", "created"):
            assert sorted(i.id for i in self.store.sessions(limit=2, order=order)) == sorted(families.roots())
            assert sorted(i.id for i in self.store.sessions(limit=2, order=order, root=False)) == sorted(self.models)
        for gone in self.deleted:
            refused(lambda gone=gone: self.store.get(gone.id), NotFound("session", gone.id))


def compare(session: Session, model: Model, dice: Random) -> None:
    """Everything that a session says of itself, and of a past moment."""
    assert session.head == model.head
    assert [plain(entry) for entry in session.entries()] == [plain_line(model, line) for line in model.log]
    compare_moment(session, model)
    at, last = dice.randint(0, model.head), dice.randint(0, 4)
    shown = [line.seq for line in model.visible(at)]
    assert seqs(session.view(at)) == shown
    assert seqs(session.view(at, last)) == shown[max(0, len(shown) - last) :]
    assert session.state_at(at) == model.state(at)
    for line in model.log:
        if line.kind in ("compaction", "replacement"):
            assert [e.seq for e in session.originals(line.seq)] == [o.seq for o in model.originals(line.seq)]
    for key, (first, _, _) in model.keys.items():
        assert session.entry(key=key).seq == first


def compare_moment(session: Session, model: Model) -> None:
    shown = model.visible()
    view = session.view()
    assert (view.head, view.damaged) == (model.head, ())
    assert view.messages == session.messages() == [line.message for line in shown]
    assert seqs(view) == [line.seq for line in shown]
    pending = [(waiting.seq, waiting.call, waiting.started > 0) for waiting in model.pending()]
    assert [(p.seq, p.call, p.started) for p in session.pending] == pending
    assert (session.unanswered.seq if session.unanswered else 0) == model.unanswered()
    info = session.info
    assert (info.messages, info.tokens, info.pending) == (len(shown), model.tokens(), len(pending))
    assert session.state == model.state()
    assert goal_of(session.goal) == goal_of(model.goal())
    assert [(waiting.message, waiting.key) for waiting in session.queued()] == model.inbox
    assert (info.queued, info.holder) == (len(model.inbox), model.holder)


def goal_of(goal: Goal | dict[str, Any] | None) -> tuple[Any, ...] | None:
    """A goal as the model can tell it: without its times."""
    if goal is None:
        return None
    told = goal if isinstance(goal, dict) else {name: getattr(goal, name) for name in GOAL}
    return tuple(told.get(name) for name in GOAL)


def spent(usage: Usage) -> tuple[int, int]:
    return usage.input, usage.requests


def seqs(view: threadline.View) -> list[int]:
    return [entry.seq for entry in view.entries]


def plain(entry: threadline.Entry) -> tuple[Any, ...]:
    """An entry as the model can tell it: spans as the entries that they hold."""
    data, told, run = dict(entry.data or {}), None, []
    if entry.kind in ("state", "goal"):
        data = {name: value for name, value in data.items() if name not in DERIVED}
    if entry.kind in STRUCTURAL:
        told, run = within(data.pop("view")), within(data.pop("covers", []))
    return entry.seq, entry.kind, entry.message, data, tuple(run), told, entry.key, entry.tokens


def within(spans: list[list[int]]) -> list[int]:
    return [seq for first, last in spans for seq in range(first, last + 1)]


def plain_line(model: Model, line: Line) -> tuple[Any, ...]:
    told = model.moment(line.seq).seen if line.kind in STRUCTURAL else None
    return line.seq, line.kind, line.message, line.data, line.run, told, line.key, model.tokens_of(line)


def refused(act: Any, expected: ThreadlineError) -> None:
    """The call raises exactly that error. That nothing was written is what the next comparison sees."""
    with pytest.raises(type(expected)) as caught:
        act()
    assert caught.type is type(expected)


def test_any_history_leaves_the_store_as_the_model_says() -> None:
    run_state_machine_as_test(
        Sessions,
        settings=settings(
            max_examples=scaled(HISTORIES),
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
