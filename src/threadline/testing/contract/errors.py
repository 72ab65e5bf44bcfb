"""The contract: every error is one of ours, with its facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from threadline import (
    Conflict,
    InvalidArgument,
    InvalidMessage,
    KeyReused,
    Message,
    NotFound,
    Session,
    Stale,
    ThreadlineError,
    ToolCall,
)
from threadline.testing.contract.workshop import (
    NOON,
    Contract,
)


class ErrorsContract(Contract):
    """Every error is one of ours, with its facts."""

    @pytest.mark.parametrize(
        "refused",
        [
            lambda s: s.append("hi", expect=9),
            lambda s: s.append(object()),
            lambda s: s.append("hi", key=""),
            lambda s: s.append("hi", expect="1"),
            lambda s: s.extend("hi"),
            lambda s: s.extend({"role": "user", "content": "hi"}),
            lambda s: s.append("hi", at="yesterday"),
            lambda s: s.append("hi", usage=[1]),
            lambda s: s.append({"role": "user", "content": "hi"}, format="fax"),
            lambda s: s.rewind(9),
            lambda s: s.rewind("1"),
            lambda s: s.view(at="1"),
            lambda s: s.view(last="1"),
            lambda s: list(s.entries(after="1")),
            lambda s: s.fork("1"),
            lambda s: s.entry("1"),
            lambda s: s.expand(1),
            lambda s: s.compact(7),
            lambda s: s.compact("short", upto=9),
            lambda s: s.compact("short", keep_turns=-1),
            lambda s: s.replace([], since="1", upto=1),
            lambda s: s.start_call("nobody"),
            lambda s: s.rename(None),
            lambda s: s.tag(""),
            lambda s: s.update(model=7),
            lambda s: s.fork(9),
            lambda s: s.note([]),
            lambda s: s.append("hi", format="fax"),
            lambda s: list(s.entries(limit=-1)),
            lambda s: list(s.entries(kinds=5)),
            lambda s: s.repair(5),
            lambda s: s.context().fingerprint(-1),
        ],
    )
    def test_what_is_refused_is_refused_by_an_error_of_ours(
        self, session: Session, refused: Callable[[Any], object]
    ) -> None:
        session.append("hi")
        before = session.info
        with pytest.raises(ThreadlineError):
            refused(session)

        assert session.info == before

    def test_an_invalid_message_names_the_place(self, session: Session) -> None:
        with pytest.raises(InvalidMessage) as caught:
            session.append(Message.assistant(None, ToolCall("c1", "f", {"list": [1, {"when": NOON}]})))

        assert caught.value.place.endswith("parts[0].args.list[1].when")
        assert "datetime" in caught.value.why

    def test_a_place_that_is_very_deep_is_shown_by_its_ends(self, session: Session) -> None:
        deep: dict[str, Any] = {}
        for _ in range(10_000):
            deep = {"a": deep}
        with pytest.raises(InvalidMessage) as caught:
            session.note(deep)

        assert len(str(caught.value)) < 400
        assert len(caught.value.place) > 400

    def test_not_found_names_what_was_asked_for(self, session: Session) -> None:
        with pytest.raises(NotFound) as caught:
            session.entry(7)

        assert (caught.value.what, caught.value.name) == ("entry", 7)

    @pytest.mark.parametrize("error", [Stale, KeyReused])
    def test_conflicts_are_one_family(self, error: type[Exception]) -> None:
        assert issubclass(error, Conflict)

    def test_an_invalid_argument_is_a_value_error(self) -> None:
        assert issubclass(InvalidArgument, ValueError)
