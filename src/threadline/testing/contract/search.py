"""The contract: searching."""

from __future__ import annotations

from typing import Any

import pytest

from threadline import (
    Hit,
    InvalidArgument,
    Media,
    Message,
    NotFound,
    Reasoning,
    Store,
    Text,
    ToolCall,
    ToolResult,
)
from threadline.testing.contract.workshop import A_SECOND, NOON, Contract, OpenStore, talk

STRANGE = (
    "",
    " ",
    '"',
    '""',
    '"""',
    "'",
    "*",
    "a*",
    "^a",
    "(",
    ")",
    "a AND",
    "OR",
    "NOT a",
    "NEAR(a b, 2)",
    "words:a",
    "a:b",
    "-a",
    "a & b | !c",
    "a <-> b",
    "\\",
    "%_",
    "\0",
    "a\0b",
    "\ud83d",
    "\U0001f600",
    "a" * 5_000,
    "x " * 5_000,
    '"' + "word " * 500 + '"',
    "'; DROP TABLE session; --",
)


WRITTEN = (
    ("we migrated the databases", "database migrations"),
    ("HARBOUR", "harbour"),
    ("un café noir", "cafe"),
    ("un cafe noir", "Café"),
    ("call parse_config now", "parse_config"),
    ("call parse_config now", "parseConfig"),
    ("call ParseConfig now", "parse_config"),
    ("call ParseConfig now", "parseconfig"),
    ("the GitHub issue", "github"),
    ("the github issue", "GitHub"),
    ("it is in src/app/config.py:12", "src/app/config.py"),
    ("it is in src/app/config.py:12", "config.py"),
    ("failed with ECONNREFUSED", "econnrefused"),
    ("failed with ECONNREFUSED", "ECONNREF"),
    ("error TS2304: cannot find name", "TS2304"),
    ("commit 3ba9762f", "3ba9762f"),
    ("昨日東京都に行った", "東京"),
    ("昨日東京都に行った", "東京都"),
    ("猫", "猫"),
    ("昨日の猫", "猫"),
    ("猫がいる", "猫"),
    ("我们讨论了数据库迁移", "数据库"),
    ("한국어를 배우다", "한국어"),
    ("ภาษาไทยง่าย", "ไทย"),
    ("ＡＢＣ", "abc"),
)


def found(hits: list[Hit]) -> list[tuple[str, int]]:
    return [(hit.session.id, hit.seq) for hit in hits]


def seqs(hits: list[Hit]) -> set[int]:
    return {hit.seq for hit in hits}


class SearchContract(Contract):
    """Finding what was said."""

    # -- what is found -----------------------------------------------------------------------------------

    def test_a_word_finds_the_entry_that_has_it(self, store: Store) -> None:
        talk(store.new(), 2)
        session = store.new()
        session.extend(["hello", "the harbour is closed", "goodbye"])

        (hit,) = store.search("harbour")

        assert (hit.session.id, hit.seq, hit.role) == (session.id, 2, "user")
        assert hit.session == session.info
        assert hit.at == session.entry(2).at

    def test_a_word_that_nobody_said_finds_nothing(self, store: Store) -> None:
        talk(store.new(), 2)

        assert store.search("harbour") == []

    def test_an_empty_store_has_no_answers(self, store: Store) -> None:
        assert store.search("anything") == []

    @pytest.mark.parametrize(
        "message",
        [
            Message.user("the zebra"),
            Message.assistant("the zebra"),
            Message.system("the zebra"),
            Message.assistant(None, Reasoning("the zebra")),
            Message.assistant(None, ToolCall("c1", "zebra", {})),
            Message.assistant(None, ToolCall("c1", "look", {"for": ["a", {"b": "zebra"}]})),
            Message.assistant(None, ToolCall("c1", "look", {"zebra": 1})),
            Message.assistant(None, ToolCall("c1", "look", "not json: zebra")),
            Message.tool("c1", "the zebra"),
            Message.tool("c1", "much", display="the zebra"),
            Message("tool", (ToolResult("c1", (Media("image/png", name="zebra.png"),)),)),
            Message("narrator", (Text("the zebra"),)),
            Message.user("the zebra", meta={"hidden": True}),
        ],
        ids=lambda message: f"{message.role}-{type(message.parts[0]).__name__}",
    )
    def test_whatever_part_has_it(self, store: Store, message: Message) -> None:
        store.new().extend(["before", message])

        (hit,) = store.search("zebra")

        assert (hit.seq, hit.role) == (2, message.role)

    def test_summaries_notes_goals_and_titles_are_found(self, store: Store) -> None:
        session = talk(store.new(title="all about ostriches"), 2)
        session.compact("they spoke of zebras", keep_turns=1)
        session.note({"reminder": {"about": "giraffes"}})
        session.set_goal("tame a lion")

        found = {word: [(hit.seq, hit.role) for hit in store.search(word)] for word in ("zebra", "giraffe", "lion")}

        assert found == {"zebra": [(5, "summary")], "giraffe": [(6, "note")], "lion": [(7, "goal")]}
        assert [(hit.seq, hit.role) for hit in store.search("ostrich")] == [(0, "title")]

    def test_a_title_is_found_as_it_is_now(self, store: Store) -> None:
        session = store.new(title="all about ostriches")
        assert store.search("ostrich") != []

        session.rename("all about zebras")

        assert store.search("ostrich") == []
        assert found(store.search("zebra")) == [(session.id, 0)]

    def test_large_outputs_are_found_to_their_end(self, store: Store) -> None:
        session = store.new()
        session.append(Message.tool("c1", "line\n" * 20_000 + "the zebra"))

        assert found(store.search("zebra")) == [(session.id, 1)]

    def test_what_is_appended_is_found_at_once(self, store: Store) -> None:
        session = store.new()
        for i in range(3):
            session.append(f"the zebra {i}")

            assert len(store.search("zebra")) == i + 1

    # -- words -------------------------------------------------------------------------------------------

    def test_a_word_is_found_however_it_is_written(self, store: Store) -> None:
        for text, _ in WRITTEN:
            store.new().extend(["something else", text])

        for text, query in WRITTEN:
            hits = store.search(query)

            assert (2, text) in [(hit.seq, hit.snippet.replace("**", "")) for hit in hits], query
            assert 1 not in seqs(hits), query

    def test_a_phrase_in_quotation_marks_must_be_there(self, store: Store) -> None:
        session = store.new()
        session.extend(["the red door of the house", "the red house has a door", "red"])

        assert seqs(store.search('"red door"')) == {1}
        assert seqs(store.search('house "red door"')) == {1}
        assert seqs(store.search('"door red"')) == set()
        assert seqs(store.search("red door")) == {1, 2, 3}

    def test_a_phrase_of_common_words_is_found(self, store: Store) -> None:
        store.new().extend(["to be or not to be", "not to be"])

        assert seqs(store.search('"to be or not"')) == {1}

    def test_a_question_of_common_words_finds_something(self, store: Store) -> None:
        store.new().append("who are you")

        assert len(store.search("who are you?")) == 1

    def test_no_text_is_an_error(self, store: Store) -> None:
        for query in STRANGE:
            store.new(title=query or None).append(f"a b c {query}")

        for query in STRANGE:
            assert all(hit.seq in (0, 1) for hit in store.search(query))

    # -- order -------------------------------------------------------------------------------------------

    def test_more_of_the_question_comes_first(self, store: Store) -> None:
        store.new().extend(["a blue boat", "a boat", "a blue boat in the harbour", "a blue sky"])

        assert store.search("blue boat harbour")[0].seq == 3

    def test_rare_words_count_more_than_common_ones(self, store: Store) -> None:
        session = store.new()
        session.extend([f"the server restarted again, run {i}" for i in range(20)])
        session.append("the giraffe")

        assert store.search("server giraffe")[0].seq == 21

    def test_an_identifier_as_a_whole_comes_before_its_words(self, store: Store) -> None:
        store.new().extend(["config of the parse tree", "the parse_config function", "parse the other config"])

        assert store.search("parse_config")[0].seq == 2

    def test_scores_fall(self, store: Store) -> None:
        store.new().extend([f"boat {'harbour ' * (i % 3)} {i}" for i in range(10)])

        scores = [hit.score for hit in store.search("harbour boat")]

        assert len(scores) == 10
        assert scores == sorted(scores, reverse=True)

    def test_no_more_than_the_limit(self, store: Store) -> None:
        store.new().extend([f"boat {i}" for i in range(30)])

        assert len(store.search("boat", limit=7)) == 7
        assert len(store.search("boat")) == 20

    def test_every_match_is_found_when_it_is_asked_for(self, store: Store) -> None:
        session = store.new()
        session.extend([f"boat {i}" for i in range(150)])

        assert seqs(store.search("boat", limit=1_000)) == set(range(1, 151))

    # -- a hit -------------------------------------------------------------------------------------------

    def test_a_snippet_marks_what_was_asked_for(self, store: Store) -> None:
        store.new().append("so we migrated parse_config to 東京都 and left")

        assert store.search("migrating")[0].snippet == "so we **migrated** parse_config to 東京都 and left"
        assert store.search("parse_config")[0].snippet == "so we migrated **parse_config** to 東京都 and left"
        assert store.search("東京")[0].snippet == "so we migrated parse_config to **東京**都 and left"

    def test_a_snippet_is_the_place_that_has_it_on_one_line(self, store: Store) -> None:
        store.new().append("first words. " * 100 + "\n\nthe giraffe\n" + "last words. " * 100)

        snippet = store.search("giraffe")[0].snippet

        assert "the **giraffe** last" in snippet
        assert snippet.startswith("…")
        assert snippet.endswith("…")
        assert len(snippet) < 250

    def test_marks_are_those_that_were_asked_for(self, store: Store) -> None:
        store.new().append("the giraffe")

        assert store.search("giraffe", marks=("<", ">"))[0].snippet == "the <giraffe>"

    def test_the_messages_around_a_hit_come_along(self, store: Store) -> None:
        session = talk(store.new(), 1)
        session.note({"said": "nothing"})
        session.append("the giraffe")
        talk(session, 1)

        (hit,) = store.search("giraffe")
        (wide,) = store.search("giraffe", around=5)
        (bare,) = store.search("giraffe", around=0)

        assert [[m.text for m in side] for side in (hit.before, hit.after)] == [["a1"], ["q1"]]
        assert [[m.text for m in side] for side in (wide.before, wide.after)] == [["q1", "a1"], ["q1", "a1"]]
        assert (bare.before, bare.after) == ((), ())

    def test_what_was_rewound_is_found_and_marked(self, store: Store) -> None:
        session = talk(store.new(), 1)
        session.append("the giraffe")
        assert not store.search("giraffe")[0].hidden

        session.rewind(2)

        assert [(hit.seq, hit.hidden) for hit in store.search("giraffe")] == [(3, True)]

    def test_what_was_compacted_away_is_found_and_marked(self, store: Store) -> None:
        session = store.new()
        session.append("the giraffe")
        talk(session, 2)
        session.compact("of animals", keep_turns=1)

        assert [(hit.seq, hit.hidden) for hit in store.search("giraffe")] == [(1, True)]
        assert [(hit.seq, hit.hidden) for hit in store.search("animal")] == [(6, False)]

    def test_grouped_each_session_comes_once(self, store: Store) -> None:
        one, other = store.new(), store.new()
        one.extend(["a giraffe", "a giraffe and a zebra", "a giraffe"])
        other.append("a giraffe")

        hits = store.search("giraffe zebra", group=True)

        assert found(hits) == [(one.id, 2), (other.id, 1)]
        assert [hit.matches for hit in hits] == [3, 1]

    # -- filters -----------------------------------------------------------------------------------------

    def test_only_one_session(self, store: Store) -> None:
        one, other = store.new(title="giraffes"), store.new()
        one.append("a giraffe")
        other.append("a giraffe")

        assert sorted(found(store.search("giraffe", session=one))) == [(one.id, 0), (one.id, 1)]
        assert found(store.search("giraffe", session=other.id or "")) == [(other.id, 1)]

    def test_a_session_that_does_not_exist(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.search("giraffe", session="nobody")

    def test_only_one_role(self, store: Store) -> None:
        store.new().extend(["giraffe", Message.assistant("giraffe"), Message.tool("c1", "giraffe")])

        assert [seqs(store.search("giraffe", role=role)) for role in ("user", "assistant", "tool", "system")] == [
            {1},
            {2},
            {3},
            set(),
        ]

    def test_only_one_agent_or_folder(self, store: Store) -> None:
        ids = {}
        for agent in ("coder", "writer"):
            for cwd in ("/a", "/b"):
                session = store.new(agent=agent, cwd=cwd)
                session.append("giraffe")
                ids[agent, cwd] = session.id

        assert {it for it, _ in found(store.search("giraffe", agent="coder"))} == {
            ids["coder", "/a"],
            ids["coder", "/b"],
        }
        assert found(store.search("giraffe", agent="writer", cwd="/b")) == [(ids["writer", "/b"], 1)]
        assert store.search("giraffe", agent="nobody") == []

    def test_only_from_a_time_to_another(self, store: Store) -> None:
        session = store.new()
        for i in range(4):
            session.append("giraffe", at=NOON + i * A_SECOND)

        assert seqs(store.search("giraffe", since=NOON + A_SECOND, until=NOON + 3 * A_SECOND)) == {2, 3}

    def test_filters_find_what_is_rare_among_many(self, store: Store) -> None:
        crowd = store.new(agent="crowd")
        crowd.extend([f"giraffe {i}" for i in range(300)])
        alone = store.new(agent="alone")
        alone.append(Message.assistant("giraffe"), at=NOON)

        for only in ({"agent": "alone"}, {"role": "assistant"}, {"until": NOON + A_SECOND}, {"session": alone}):
            assert found(store.search("giraffe", **only)) == [(alone.id, 1)]

    def test_no_search_crosses_a_namespace(self, store: Store) -> None:
        store.within("acme").new().append("giraffe")

        assert store.search("giraffe") == []
        assert len(store.within("acme").search("giraffe")) == 1

    def test_sub_agents_are_found(self, store: Store) -> None:
        child = store.new().spawn("scout")
        child.append("giraffe")

        assert found(store.search("giraffe", agent="scout")) == [(child.id, 1)]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"limit": 0},
            {"limit": "many"},
            {"around": -1},
            {"role": 7},
            {"agent": 7},
            {"cwd": 7},
            {"marks": "*"},
            {"query": None},
        ],
        ids=str,
    )
    def test_what_is_no_question_is_refused(self, store: Store, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument):
            store.search(**{"query": "giraffe"} | wrong)

    # -- lives -------------------------------------------------------------------------------------------

    def test_archived_sessions_are_found_and_trashed_ones_on_request(self, store: Store) -> None:
        archived, trashed = store.new(), store.new()
        for session in (archived, trashed):
            session.append("giraffe")
        store.archive(archived)
        store.trash(trashed)

        assert found(store.search("giraffe")) == [(archived.id, 1)]
        assert {it for it, _ in found(store.search("giraffe", trashed=True))} == {archived.id, trashed.id}

    def test_what_forks_share_is_found_once(self, store: Store) -> None:
        session = store.new()
        session.extend(["giraffe", "zebra"])
        fork = session.fork(1)
        fork.append("lion")

        assert found(store.search("giraffe")) == [(session.id, 1)]
        assert found(store.search("giraffe", session=fork)) == [(fork.id, 1)]
        assert found(store.search("zebra", session=fork)) == []
        assert found(store.search("lion")) == [(fork.id, 2)]

    @pytest.mark.parametrize("indexed", [True, False])
    def test_deleted_sessions_are_never_found(self, store: Store, indexed: bool) -> None:
        session = store.new(title="all about ostriches")
        session.extend(["giraffe", "zebra"])
        fork = session.fork(1)
        if indexed:
            store.index()

        store.delete(session)

        assert found(store.search("giraffe", trashed=True)) == [(fork.id, 1)]
        assert store.search("zebra", trashed=True) == []
        assert store.search("ostrich", trashed=True) == []

    def test_what_is_written_after_a_deletion_is_found(self, store: Store) -> None:
        gone = store.new()
        gone.extend([f"zebra {i}" for i in range(5)])
        store.index()
        store.delete(gone)

        session = store.new()
        session.append("giraffe")

        assert found(store.search("giraffe")) == [(session.id, 1)]

    # -- the index ---------------------------------------------------------------------------------------

    def test_the_index_can_be_brought_up_to_date_dropped_and_made_anew(self, store: Store) -> None:
        session = store.new(title="animals")
        session.extend([f"giraffe {i}" for i in range(5)])
        steps: list[Any] = []

        done = store.index(progress=steps.append)

        assert done.done == done.total
        assert not done.left
        assert (steps[-1].done, steps[-1].total) == (done.done, done.total)
        before = store.search("giraffe animals")
        assert store.index(drop=True).left
        assert store.search("giraffe animals") == before
        assert not store.index(rebuild=True).left
        assert store.search("giraffe animals") == before

    def test_searching_changes_no_session(self, store: Store) -> None:
        session = talk(store.new(), 2)
        before = (session.info, list(session.entries()))

        store.search("q1")

        assert (session.info, list(session.entries())) == before

    def test_stats_say_what_the_index_lacks(self, store: Store) -> None:
        told: list[Any] = []
        store.new().extend(["giraffe", "zebra"])
        before = store.stats()["unindexed"]
        store.index()

        assert before >= 2
        assert store.stats(progress=told.append)["unindexed"] == 0
        assert (told[-1].done, told[-1].unit) == (2, "entry")
        assert told[-1].total >= 2


class DurableSearchContract(Contract):
    """Searching what is opened again."""

    @pytest.mark.parametrize("indexed", ["nothing", "some", "all"])
    def test_a_read_only_store_finds_what_is_indexed_and_what_is_not(self, open_store: OpenStore, indexed: str) -> None:
        with open_store() as store:
            session = store.new(title="all about ostriches")
            session.extend(["giraffe", "zebra"])
            if indexed != "nothing":
                store.index()
            if indexed != "all":
                session.append(Message.assistant("zebra and lion"))
                session.rename("all about okapis")

        with open_store(read_only=True) as store:
            assert seqs(store.search("giraffe")) == {1}
            assert seqs(store.search("zebra")) == ({2} if indexed == "all" else {2, 3})
            assert seqs(store.search("zebra", role="user")) == {2}
            assert seqs(store.search("okapi", session=session.id)) == (set() if indexed == "all" else {0})
            assert seqs(store.search("ostrich")) == ({0} if indexed == "all" else set())
            assert store.within("acme").search("giraffe") == []

    def test_an_index_lasts(self, open_store: OpenStore) -> None:
        with open_store() as store:
            store.new().append("giraffe")
            store.index()

        with open_store() as store:
            steps: list[Any] = []
            store.index(progress=steps.append)

            assert steps == []
            assert len(store.search("giraffe")) == 1
