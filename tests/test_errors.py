"""Errors are values as well: they travel between processes with their facts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Any

import pytest

import threadline
from threadline import errors
from threadline.errors import ThreadlineError

ERRORS = [
    errors.NotFound("session", "x", "look elsewhere"),
    errors.Conflict("taken", ["a", "b"]),
    errors.Stale(1, 2),
    errors.KeyReused("k", 3),
    errors.Uncertain("s", 4),
    errors.Closed(),
    errors.ReadOnly(),
    errors.NotActive("s", "archived"),
    errors.LeaseHeld("worker", datetime(2026, 1, 1, tzinfo=UTC)),
    errors.LeaseLost("s", None),
    errors.InvalidArgument("no"),
    errors.InvalidMessage("message.role", "no"),
    errors.DepthExceeded(4, 3),
    errors.NotVisible(5),
    errors.NothingToCompact("no"),
    errors.BudgetTooSmall(10, 1),
    errors.Damaged("s", 6, "no"),
    errors.NotThreadline("a.db", "no"),
    errors.TooNew("a.db", 2, 1),
    errors.StoreBusy("no"),
    errors.StoreFull("no"),
    errors.StoreFailed("no"),
    ThreadlineError("no"),
]


def test_the_list_of_errors_is_whole() -> None:
    every = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ThreadlineError)}

    assert {type(error) for error in ERRORS} == every


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_with_its_words_and_its_facts(error: ThreadlineError, again: Callable[[Any], Any]) -> None:
    other = again(error)

    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_a_worker_of_a_pool_can_fail_without_breaking_the_pool() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        with pytest.raises(errors.NotFound, match="nobody"):
            pool.submit(ask_for_nobody).result(timeout=60)

        assert pool.submit(abs, -1).result(timeout=60) == 1


@pytest.mark.parametrize(
    "refused",
    [
        lambda store: store.usage(by=None),
        lambda store: store.usage(by=5),
        lambda store: threadline.plan_compaction(store.new().messages(), target_tokens=1),
        lambda store: threadline.plan_compaction(store.new().view(), target_tokens=1, keep=5),
        lambda store: threadline.should_compact({"input": 1}, "large"),
        lambda store: threadline.should_compact({"input": 1}, 100, "most"),
        lambda store: store.session("k", colour="red"),
        lambda store: threadline.open(5),
        lambda store: threadline.open(b"agents.db"),
        lambda store: threadline.open("file:agents.db"),
        lambda store: threadline.open("sqlite:///agents.db"),
        lambda store: threadline.open(":memory:", read_only=True),
        lambda store: threadline.open(":memory:", clock=5),
        lambda store: threadline.open(":memory:", count_tokens="tiktoken"),
    ],
)
def test_an_argument_that_cannot_be_right_is_refused_in_our_words(refused: Callable[[Any], object]) -> None:
    with threadline.open(":memory:") as store, pytest.raises(errors.InvalidArgument):
        refused(store)


def test_stores_and_sessions_say_how_they_get_to_another_process() -> None:
    with threadline.open(":memory:") as store:
        for thing, says in ((store, "threadline.open"), (store.new(), "store.get")):
            with pytest.raises(TypeError, match=says):
                pickle.dumps(thing)


def test_a_key_reused_in_the_inbox_names_no_entry() -> None:
    assert "entry" not in str(errors.KeyReused("k", 0))


def test_public_things_say_what_they_are() -> None:
    with threadline.open(":memory:") as store:
        session = store.session("chat")
        session.append("hi")
        with session.draft() as draft:
            draft.write("four")

            assert repr(draft) == "<DraftWriter of 4 characters>"
        store.new()

        assert repr(store.sessions(limit=1)) == "<Page of 1 sessions, more follow>"
        assert repr(session.batch()) == "<Batch of 0 writes>"
        assert repr(session.follow(after=3)) == "<Follow of <Session 'chat'> after entry 3>"


def ask_for_nobody() -> None:
    with threadline.open(":memory:") as store:
        store.get("nobody")
