"""The contract: large content comes back byte for byte, is kept once per tree, and can be read in slices."""

from __future__ import annotations

import random

import pytest

from threadline import InvalidArgument, Media, Message, NotFound, Session, Store, Text, ToolCall
from threadline.testing.contract.workshop import Contract

LARGE = "".join(random.Random(1).choices('abc "\\\n\t\0\ud800é😀', k=50_000))


def blobs(store: Store) -> int:
    return int(store.stats()["blobs"])


class BlobsContract(Contract):
    """Large content, out of line."""

    @pytest.mark.parametrize("size", [2_000, 2_047, 2_048, 2_049, 4_095, 4_096, 4_097, 100_000])
    def test_content_of_any_size_comes_back_exactly(self, session: Session, size: int) -> None:
        said = [Message.user("x" * size), Message.tool("c", [Text(LARGE[:size]), Media("image/png", b"\0" * size)])]
        said.append(Message.assistant(None, ToolCall("c", "t", {"k" * size: ["v" * size, "v" * size]})))
        session.extend(said)

        assert session.messages() == said
        assert [entry.message for entry in session.entries(reverse=True)] == said[::-1]
        assert [session.entry(seq).message for seq in (1, 2, 3)] == said

    def test_the_same_content_is_kept_once_in_a_tree(self, store: Store, session: Session) -> None:
        session.extend([Message.tool("a", LARGE), Message.tool("b", LARGE), Message.assistant("", Text(LARGE))])
        session.fork().append(Message.tool("c", LARGE))
        once = blobs(store)
        store.new().append(Message.tool("a", LARGE))

        assert (once, blobs(store)) == (1, 2)

    def test_deleting_takes_along_what_nobody_else_has(self, store: Store, session: Session) -> None:
        session.append(Message.tool("a", LARGE))
        fork = session.fork()
        session.append(Message.tool("b", LARGE[::-1]))
        before = blobs(store)
        store.delete(session)
        shared = blobs(store)
        kept = fork.read(1)
        problems = store.verify().problems
        store.delete(fork)

        assert (before, shared, blobs(store)) == (2, 1, 0)
        assert (kept, problems) == (LARGE, [])

    def test_small_content_is_not_put_out_of_line(self, store: Store, session: Session) -> None:
        session.append("x" * 1_000)

        assert blobs(store) == 0

    def test_a_large_summary_is_a_view_like_any_other(self, session: Session) -> None:
        session.append("hello")
        compaction = session.compact(LARGE)
        session.append("go on")

        assert [message.text for message in session.messages()] == [LARGE, "go on"]
        assert session.originals(compaction.seq)[0].message == Message.user("hello")

    def test_a_slice_of_a_part(self, session: Session) -> None:
        session.append(Message.tool("c", LARGE))
        session.append(Message.user("see", Media("image/png", bytes(range(256)) * 100)))

        assert session.read(1) == LARGE
        assert session.read(1, start=10_000, length=500) == LARGE[10_000:10_500]
        assert session.read(2, 1, 256, 4) == b"\0\1\2\3"
        assert session.read(2, start=2, length=100) == "e"

    def test_a_slice_of_what_is_not_there(self, session: Session) -> None:
        session.append("hello")
        for wrong in ({"seq": 2}, {"seq": 1, "part": 1}, {"seq": 1, "part": -1}):
            with pytest.raises(NotFound):
                session.read(**wrong)
        for negative in ("start", "length"):
            with pytest.raises(InvalidArgument):
                session.read(1, **{negative: -1})
