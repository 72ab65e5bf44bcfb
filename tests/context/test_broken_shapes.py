"""The shapes in which sessions break in the field, one test each: crashes, races, compactions and imports leave them in
the log, and a provider refuses every later request. Here, each gives a legal context, and none loses a user's words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sdk_types import judge

import threadline
from threadline import (
    Context,
    Media,
    Message,
    Other,
    Reasoning,
    Session,
    Store,
    Text,
    ToolCall,
    ToolResult,
    formats,
)

PROVIDERS = ("anthropic", "openai", "responses", "gemini")
NOT_STARTED = "Error: interrupted (no start was recorded)."
STARTED = "Error: interrupted (it had started, so its effects are uncertain)."


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store() -> Iterator[Store]:
    with threadline.open(":memory:") as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.new()


def calls(*ids: str, text: str | None = None) -> Message:
    return Message.assistant(text, *(ToolCall(id, "search", {"for": id}) for id in ids))


def result(id: str, output: str = "found") -> Message:
    return Message.tool(id, output)


def sent(session: Session, provider: str) -> Context:
    """The context as it is sent: legal by the rules and by the provider's own types, with all that users said."""
    log = list(session.entries())
    context = session.context(format=provider)
    assert formats.problems(context.messages, provider) == []
    judge(provider)(context.messages)
    told = story(context)
    for text in said_by_users(session):
        assert any(line.endswith(text) for line in told if line.startswith("user: "))
    assert list(session.entries()) == log
    return context


def story(context: Context) -> list[str]:
    """What a context tells, part by part, in the same words for all providers."""
    messages = formats.read(context.messages, context.format)
    return [_told(message.role, part) for message in messages for part in message.parts]


def _told(role: str, part: threadline.Part) -> str:
    match part:
        case Text(text):
            return f"{role}: {text}"
        case ToolCall(id, name, args):
            return f"call {id} of {name} {args}"
        case ToolResult(id, output):
            shown = output if isinstance(output, str) else " ".join(_told("result", inner) for inner in output)
            return f"result {id}: {shown}"
        case Reasoning(text):
            return f"thought: {text}"
        case Media(mime):
            return f"{role}: {mime}"
    return f"{role}: {part.raw}"


def said_by_users(session: Session) -> list[str]:
    parts = [part for message in session.messages() if message.role == "user" for part in message.parts]
    return [part.text for part in parts if type(part) is Text and part.text.strip()]


def called(*ids: str) -> list[str]:
    return [f"call {id} of search {{'for': '{id}'}}" for id in ids]


# -- calls without a result ----------------------------------------------------------------------------


def test_a_kill_before_the_tool_ran_leaves_a_call_that_says_so(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1")])

    context = sent(session, provider)

    assert story(context) == ["user: look it up", *called("c1"), f"result c1: {NOT_STARTED}"]
    assert context.repairs == ["entry 2: the call 'c1' has no result; an error stands in for it"]


def test_a_kill_while_the_tool_ran_leaves_a_call_whose_effects_are_uncertain(session: Session, provider: str) -> None:
    session.extend(["delete it", calls("c1")])
    session.start_call("c1")

    assert story(sent(session, provider))[-1] == f"result c1: {STARTED}"


def test_parallel_calls_say_each_for_itself_what_became_of_them(session: Session, provider: str) -> None:
    session.extend(["all three", calls("c1", "c2", "c3")])
    session.start_call("c2")
    session.append(result("c3", "three"))

    told = story(sent(session, provider))

    assert told[1:4] == called("c1", "c2", "c3")
    assert sorted(told[4:]) == [f"result c1: {NOT_STARTED}", f"result c2: {STARTED}", "result c3: three"]


def test_a_user_who_interrupts_a_tool_speaks_behind_its_result(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), "stop, do something else"])

    assert story(sent(session, provider))[-2:] == [f"result c1: {NOT_STARTED}", "user: stop, do something else"]


def test_a_session_that_went_on_without_the_result_is_not_bricked(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), "hello?", "anyone?", Message.assistant("Yes."), "go on"])

    assert story(sent(session, provider)) == [
        "user: look it up",
        *called("c1"),
        f"result c1: {NOT_STARTED}",
        "user: hello?",
        "user: anyone?",
        "assistant: Yes.",
        "user: go on",
    ]


def test_a_retry_that_calls_again_after_a_crash_answers_both(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), calls("c2"), result("c2"), Message.assistant("There.")])

    told = story(sent(session, provider))

    assert [line for line in told if "result" in line] == ["result c2: found", f"result c1: {NOT_STARTED}"]
    assert told[-1] == "assistant: There."


def test_a_repaired_call_whose_real_result_comes_late_shows_the_real_one(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1")])
    session.repair("the process stopped")
    session.append("are you there?")
    session.append(result("c1", "the real one"))

    context = sent(session, provider)

    assert story(context) == [
        "user: look it up",
        *called("c1"),
        "result c1: the real one",
        "user: are you there?",
    ]
    assert context.repairs == ["entry 5: the late result for 'c1' takes the place of the error that stood in for it"]


def test_a_real_result_is_not_replaced_by_a_late_repair(session: Session, provider: str) -> None:
    late = Message.tool("c1", "Error: interrupted", error=True, meta={"repair": "interrupted"})
    session.extend(["look it up", calls("c1"), result("c1", "the real one"), late])

    context = sent(session, provider)

    assert story(context)[-1] == "result c1: the real one"
    assert context.repairs == ["entry 4: a second result for 'c1' left out"]


# -- results without a call ----------------------------------------------------------------------------


def test_a_result_whose_call_was_never_stored_is_left_out(session: Session, provider: str) -> None:
    session.extend(["look it up", result("c9"), Message.assistant("There."), "thanks"])

    context = sent(session, provider)

    assert story(context) == ["user: look it up", "assistant: There.", "user: thanks"]
    assert context.repairs == ["entry 2: the result for 'c9' answers no call; left out"]


def test_parallel_results_whose_assistant_entry_was_dropped(session: Session, provider: str) -> None:
    session.extend(["all three", result("c1"), result("c2"), result("c3"), Message.assistant("There."), "thanks"])

    context = sent(session, provider)

    assert story(context) == ["user: all three", "assistant: There.", "user: thanks"]
    assert len(context.repairs) == 3


def test_one_of_two_parallel_calls_whose_own_entry_was_dropped(session: Session, provider: str) -> None:
    session.extend(["both", calls("c1"), result("c1"), result("c2"), Message.assistant("There.")])

    assert story(sent(session, provider)) == ["user: both", *called("c1"), "result c1: found", "assistant: There."]


def test_a_history_that_begins_with_results(session: Session, provider: str) -> None:
    session.extend([result("c0"), "hello", Message.assistant("Hi.")])

    assert story(sent(session, provider)) == ["user: hello", "assistant: Hi."]


def test_a_history_of_nothing_but_an_orphan_has_an_empty_context(session: Session, provider: str) -> None:
    session.append(result("c0"))

    context = sent(session, provider)

    assert (context.messages, context.seqs, context.dropped) == ([], (), 1)


def test_words_beside_an_orphan_result_survive(session: Session, provider: str) -> None:
    session.append(Message("user", (ToolResult("c0", "old"), Text("and now something else"))))

    assert story(sent(session, provider)) == ["user: and now something else"]


# -- the wrong place, the wrong number -----------------------------------------------------------------


def test_results_that_came_in_another_order_than_their_calls(session: Session, provider: str) -> None:
    session.extend(["both", calls("c1", "c2"), result("c2", "two"), result("c1", "one")])

    assert sorted(story(sent(session, provider))[3:]) == ["result c1: one", "result c2: two"]


def test_a_result_that_comes_behind_the_next_words_is_moved_to_its_call(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), "quickly!", result("c1"), Message.assistant("There.")])

    assert story(sent(session, provider)) == [
        "user: look it up",
        *called("c1"),
        "result c1: found",
        "user: quickly!",
        "assistant: There.",
    ]


def test_a_result_that_was_written_before_its_call_is_moved_behind_it(session: Session, provider: str) -> None:
    session.extend(["look it up", result("c1"), calls("c1"), Message.assistant("There.")])

    assert story(sent(session, provider)) == [
        "user: look it up",
        *called("c1"),
        "result c1: found",
        "assistant: There.",
    ]


def test_assistant_words_between_a_call_and_its_result(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), Message.assistant("One moment."), result("c1"), "well?"])

    told = story(sent(session, provider))

    assert [told[0], told[-2], told[-1]] == ["user: look it up", "result c1: found", "user: well?"]
    assert sorted(told[1:3]) == sorted([*called("c1"), "assistant: One moment."])


def test_a_result_that_two_writers_stored_is_sent_once(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), result("c1", "first"), result("c1", "second"), "thanks"])

    context = sent(session, provider)

    assert story(context)[2:] == ["result c1: first", "user: thanks"]
    assert context.repairs == ["entry 4: a second result for 'c1' left out"]


def test_an_assistant_entry_that_was_stored_twice_calls_once(session: Session, provider: str) -> None:
    session.extend(["look it up", calls("c1"), calls("c1"), result("c1"), "thanks"])

    context = sent(session, provider)

    assert story(context) == ["user: look it up", *called("c1"), "result c1: found", "user: thanks"]
    assert context.repairs == ["entry 3: the call 'c1' stands there twice; sent once"]


def test_two_different_calls_of_one_id_in_one_turn_are_told_apart(session: Session, provider: str) -> None:
    both = Message.assistant(None, ToolCall("c1", "search", {"for": "a"}), ToolCall("c1", "search", {"for": "b"}))
    session.extend(["both", both, result("c1", "one"), result("c1", "two"), "thanks"])

    told = story(sent(session, provider))

    assert told[1:3] == ["call c1 of search {'for': 'a'}", "call c1_2 of search {'for': 'b'}"]
    assert sorted(line.partition(":")[0] for line in told[3:5]) == ["result c1", "result c1_2"]


def test_an_id_that_a_later_turn_uses_again_stays_with_its_own_result(session: Session, provider: str) -> None:
    for n in ("one", "two"):
        session.extend([n, calls("call_0"), result("call_0", n), Message.assistant(f"{n}.")])

    told = story(sent(session, provider))

    assert [line.rpartition(": ")[2] for line in told if line.startswith("result")] == ["one", "two"]
    assert sum(line.startswith("call") for line in told) == 2


def test_results_inside_an_assistant_message(session: Session, provider: str) -> None:
    both = Message("assistant", (ToolCall("c1", "search", {"for": "c1"}), ToolResult("c1", "found")))
    session.extend(["look it up", both, "thanks"])

    assert story(sent(session, provider)) == ["user: look it up", *called("c1"), "result c1: found", "user: thanks"]


def test_a_call_that_a_user_makes_is_told_as_text(session: Session, provider: str) -> None:
    session.extend([Message("user", (Text("I did this:"), ToolCall("c1", "search", {"for": "x"}))), "go on"])

    assert story(sent(session, provider))[:2] == ["user: I did this:", 'user: [a call of search: {"for":"x"}]']


# -- what a changed view leaves ------------------------------------------------------------------------


def conversation(session: Session, turns: int = 3) -> Session:
    """So many turns of four entries: a question, a call, its result, an answer."""
    for n in range(1, turns + 1):
        session.extend([f"q{n}", calls(f"c{n}"), result(f"c{n}", f"r{n}"), Message.assistant(f"a{n}")])
    return session


@pytest.mark.parametrize("upto", range(1, 13))
def test_a_compaction_that_ends_anywhere_never_parts_a_call_from_its_result(
    session: Session, provider: str, upto: int
) -> None:
    conversation(session).compact("So far: much.", upto=upto)

    told = story(sent(session, provider))

    assert [line.split()[1] for line in told if line.startswith("call")] == [
        line.split()[1].rstrip(":") for line in told if line.startswith("result")
    ]
    assert not any("Error" in line for line in told)


def test_a_compaction_while_a_call_is_open_keeps_the_call(session: Session, provider: str) -> None:
    conversation(session, 2).extend(["q3", calls("c3")])
    session.compact("So far: much.")
    session.append(result("c3", "r3"))

    assert story(sent(session, provider))[-2:] == [*called("c3"), "result c3: r3"]


@pytest.mark.parametrize(("since", "upto"), [(1, 2), (2, 2), (3, 3), (3, 4), (2, 6), (3, 7), (6, 11)])
def test_a_replacement_that_parts_pairs_is_mended(session: Session, provider: str, since: int, upto: int) -> None:
    conversation(session).replace(["instead"], since=since, upto=upto)

    assert "user: instead" in story(sent(session, provider))


@pytest.mark.parametrize("to", range(13))
def test_a_rewind_into_the_middle_of_a_tool_round(session: Session, provider: str, to: int) -> None:
    conversation(session).rewind(to)
    session.append("something else")

    context = sent(session, provider)

    assert story(context)[-1] == "user: something else"
    assert any("has no result" in said for said in context.repairs) == (to % 4 == 2)


@pytest.mark.parametrize("at", range(1, 13))
def test_a_fork_from_the_middle_of_a_tool_round(session: Session, provider: str, at: int) -> None:
    fork = conversation(session).fork(at=at)
    fork.append("something else")

    assert story(sent(fork, provider))[-1] == "user: something else"


def test_a_late_result_that_a_rewind_made_an_orphan(session: Session, provider: str) -> None:
    session.extend(["q1", Message.assistant("a1"), "q2", calls("c1")])
    session.rewind(2)
    session.append(result("c1", "too late"))
    session.append("q3")

    assert story(sent(session, provider)) == ["user: q1", "assistant: a1", "user: q3"]


def test_a_clear_between_a_call_and_its_result(session: Session, provider: str) -> None:
    session.extend(["q1", calls("c1")])
    session.clear()
    session.extend([result("c1"), "a fresh start"])

    assert story(sent(session, provider)) == ["user: a fresh start"]


@pytest.mark.parametrize("last", range(1, 13))
def test_a_window_cut_anywhere_keeps_the_newest_turn_and_all_pairs(session: Session, provider: str, last: int) -> None:
    conversation(session)

    context = session.context(format=provider, max_messages=last)

    assert formats.problems(context.messages, provider) == []
    assert context.repairs == ["entry 12: the last message is the assistant's; kept"]
    assert "user: q3" in story(context)


@pytest.mark.parametrize("at", range(1, 13))
def test_a_past_moment_in_the_middle_of_a_tool_round(session: Session, provider: str, at: int) -> None:
    conversation(session)

    context = session.context(format=provider, at=at)

    assert formats.problems(context.messages, provider) == []
    assert (context.head, context.seqs[-1]) == (at, at)


# -- messages that say nothing, or say it wrongly -------------------------------------------------------


def test_null_content(session: Session, provider: str) -> None:
    session.extend(
        [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": None},
            {"role": "user", "content": None},
            {"role": "user", "content": "still there?"},
        ],
        format="openai",
    )

    context = sent(session, provider)

    assert story(context) == ["user: hello", "user: still there?"]
    assert context.repairs == ["entry 2: an empty message left out", "entry 3: an empty message left out"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
def test_blank_messages_of_anyone(session: Session, provider: str, blank: str) -> None:
    silent = (Text(blank),)
    session.extend(["hello", Message("assistant", silent), Message("user", silent), Message.assistant("Hi."), "bye"])

    assert story(sent(session, provider)) == ["user: hello", "assistant: Hi.", "user: bye"]


def test_a_blank_text_beside_calls(session: Session, provider: str) -> None:
    asked = Message("assistant", (Text(""), ToolCall("c1", "search", {"for": "c1"})))
    session.extend(["hello", asked, result("c1")])

    assert story(sent(session, provider)) == ["user: hello", *called("c1"), "result c1: found"]


def test_a_last_word_that_ends_in_blanks_before_another_blank(session: Session, provider: str) -> None:
    signed = Text("  ", {"provider": "gemini", "thoughtSignature": "sig"})
    session.extend(["hello", Message("assistant", (Text("words "), signed))])

    assert story(sent(session, provider))[:1] == ["user: hello"]


def test_a_thought_before_nothing_but_a_blank(session: Session, provider: str) -> None:
    thought = Reasoning("so", "sig", None, {"provider": "anthropic"})
    session.extend(["hello", Message("assistant", (thought, Text(" ", {"cache_control": {"type": "ephemeral"}})))])

    assert story(sent(session, provider)) == ["user: hello"]


def test_first_words_that_are_nothing_to_this_provider(session: Session, provider: str) -> None:
    silent = Message("tool", (Text("", {"provider": "openai", "kind": "custom"}),))
    session.extend([silent, Message.assistant("Done.")])

    assert story(sent(session, provider))[-1] == "assistant: Done."


@pytest.mark.parametrize("output", ["", (), (Text(""),)])
def test_a_result_without_content(session: Session, provider: str, output: str | tuple[Text, ...]) -> None:
    session.extend(["hello", calls("c1"), Message.tool("c1", output), Message.assistant("Done.")])

    told = story(sent(session, provider))

    assert told[2].startswith("result c1:")
    assert told[3] == "assistant: Done."


def test_arguments_that_were_cut_off_in_the_stream(session: Session, provider: str) -> None:
    torn = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"for": "the'}}
    asked = {"role": "assistant", "content": None, "tool_calls": [torn]}
    session.extend([{"role": "user", "content": "hello"}, asked], format="openai")

    context = sent(session, provider)

    assert story(context)[1] == """call c1 of search {'input': '{"for": "the'}"""
    assert any("are no JSON object" in said for said in context.repairs)


def test_an_image_without_words(session: Session, provider: str) -> None:
    session.extend([Message.user(None, Media("image/png", b"\x89PNG")), Message.assistant("A cat.")])

    assert story(sent(session, provider)) == ["user: image/png", "assistant: A cat."]


def test_an_image_that_is_only_a_file_here_is_told_by_its_name(session: Session, provider: str) -> None:
    session.extend([Message.user(None, Media("image/png", uri="/tmp/cat.png", name="cat.png")), "what is it?"])

    assert story(sent(session, provider)) == ["user: [image: cat.png]", "user: what is it?"]


def test_an_unknown_role_speaks_as_a_user(session: Session, provider: str) -> None:
    session.extend(["hello", Message("critic", (Text("Too short."),)), Message.assistant("Longer, then.")])

    assert story(sent(session, provider))[1] == "user: Too short."


def test_a_tool_message_that_only_chats(session: Session, provider: str) -> None:
    session.extend(["hello", Message("tool", (Text("42% done"),)), Message.assistant("Nearly there.")])

    assert story(sent(session, provider))[1] == "user: 42% done"


# -- who speaks when -----------------------------------------------------------------------------------


def test_an_assistant_who_speaks_first(session: Session, provider: str) -> None:
    session.extend([Message.assistant("Good morning."), "hello"])

    context = sent(session, provider)

    assert story(context)[1:] == ["assistant: Good morning.", "user: hello"]
    assert story(context)[0].startswith("user: ")
    assert context.repairs == ["entry 1: the assistant spoke first; a user message stands before it"]


def test_a_call_that_comes_first(session: Session, provider: str) -> None:
    session.extend([calls("c1"), result("c1"), Message.assistant("Done.")])

    assert story(sent(session, provider))[1:] == [*called("c1"), "result c1: found", "assistant: Done."]


def test_the_same_role_many_times_in_a_row(session: Session, provider: str) -> None:
    session.extend(["one", "two", "three", Message.assistant("1"), Message.assistant("2"), "four"])

    assert [line.partition(": ")[2] for line in story(sent(session, provider))] == [
        "one",
        "two",
        "three",
        "1",
        "2",
        "four",
    ]


def test_a_system_message_in_the_middle(session: Session, provider: str) -> None:
    session.extend(["hello", Message.assistant("Hi."), Message.system("Be brief from here on."), "go on"])

    context = sent(session, provider)

    assert context.system is None
    assert any(line.endswith(": Be brief from here on.") for line in story(context))


def test_a_system_message_between_a_call_and_its_result(session: Session, provider: str) -> None:
    session.extend(["hello", calls("c1"), Message.system("Be brief."), result("c1"), "go on"])

    told = story(sent(session, provider))

    assert told[1:3] == [*called("c1"), "result c1: found"]
    assert told[3].endswith(": Be brief.")


def test_a_trailing_assistant_message_is_kept_and_named(session: Session, provider: str) -> None:
    session.extend(["hello", Message.assistant("Once upon a time")])

    context = sent(session, provider)

    assert story(context)[-1] == "assistant: Once upon a time"
    assert context.repairs == ["entry 2: the last message is the assistant's; kept"]


# -- thoughts ------------------------------------------------------------------------------------------

SIGNED = {
    "anthropic": Reasoning("hm", signature="c2ln", extra={"provider": "anthropic"}),
    "responses": Reasoning("hm", encrypted="c2ln", extra={"provider": "responses", "id": "rs_1"}),
}


@pytest.mark.parametrize("source", sorted(SIGNED))
def test_thoughts_go_to_their_own_provider_only(session: Session, provider: str, source: str) -> None:
    session.extend(["hello", Message.assistant(None, SIGNED[source], Text("Hi.")), "go on"])

    context = sent(session, provider)

    assert ("thought: hm" in story(context)) == (provider == source)
    assert [f"of {source} left out" in said for said in context.repairs] == [True] * (provider != source)


@pytest.mark.parametrize("source", sorted(SIGNED))
def test_a_stream_that_broke_off_while_thinking(session: Session, provider: str, source: str) -> None:
    session.extend(["hello", Message.assistant(None, SIGNED[source])])

    context = sent(session, provider)

    assert story(context) == ["user: hello"]
    assert [said.endswith("left out") for said in context.repairs] == [True]


def test_a_thought_that_was_never_signed(session: Session, provider: str) -> None:
    unsigned = Reasoning("hm", extra={"provider": "anthropic"})
    session.extend(["hello", Message.assistant(None, unsigned, Text("Hi.")), "go on"])

    context = sent(session, provider)

    assert story(context) == ["user: hello", "assistant: Hi.", "user: go on"]
    assert len(context.repairs) == 1


def test_thoughts_before_parallel_calls_of_which_one_was_lost(session: Session, provider: str) -> None:
    asked = Message("assistant", (SIGNED["anthropic"], *calls("c1", "c2").parts))
    session.extend(["hello", asked, result("c1"), "go on"])

    told = story(sent(session, provider))

    assert [line for line in told if line.startswith("result")] == ["result c1: found", f"result c2: {NOT_STARTED}"]


def test_parts_that_only_one_provider_knows(session: Session, provider: str) -> None:
    server = Other(
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}, {"provider": "anthropic"}
    )
    session.extend(["hello", Message.assistant(None, server, Text("Hi.")), "go on"])

    told = story(sent(session, provider))

    assert [told[0], *told[-2:]] == ["user: hello", "assistant: Hi.", "user: go on"]


# -- names ---------------------------------------------------------------------------------------------

IDS = ["", "a b", "functions.search:0", "toolu_" + "x" * 90, "call|fc_1", "é", "…"]
TOOLS = ["", "my tool", "mcp server/search", "1st", "s" * 200, "suche_für"]


@pytest.mark.parametrize("id", IDS)
def test_ids_that_the_target_refuses(session: Session, provider: str, id: str) -> None:
    session.extend(["hello", calls(id, "other"), result("other"), result(id, "mine"), "go on"])

    context = session.context(format=provider)

    assert formats.problems(context.messages, provider) == []
    judge(provider)(context.messages)
    answered = {line.split()[1]: line for line in story(context) if line.startswith("result")}
    asked = [line.split()[1] for line in story(context) if line.startswith("call ")]
    assert sorted(asked) == sorted(name.rstrip(":") for name in answered)
    assert sum(line.endswith(": mine") for line in answered.values()) == 1


def test_ids_that_look_alike_once_they_are_valid_stay_apart(session: Session, provider: str) -> None:
    session.extend(["hello", calls("a.1", "a:1", "a_1"), result("a_1", "3"), result("a:1", "2"), result("a.1", "1")])

    context = session.context(format=provider)

    told = story(context)
    outputs = {line.split()[1].rstrip(":"): line[-1] for line in told if line.startswith("result")}
    asked = [line.split()[1] for line in told if line.startswith("call")]
    assert formats.problems(context.messages, provider) == []
    assert [outputs[id.rstrip(":")] for id in asked] == ["1", "2", "3"]


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_names_that_the_target_refuses(session: Session, provider: str, tool: str) -> None:
    session.extend(["hello", Message.assistant(None, ToolCall("c1", tool, {})), result("c1"), "go on"])

    context = session.context(format=provider)

    assert formats.problems(context.messages, provider) == []
    judge(provider)(context.messages)
    assert story(context)[2] == "result c1: found"


# -- a whole session moves from one provider to another -------------------------------------------------


@pytest.mark.parametrize("source", PROVIDERS)
def test_a_broken_session_of_one_provider_goes_on_with_another(session: Session, provider: str, source: str) -> None:
    said = [
        "look it up",
        calls("c1", "c2"),
        result("c1"),
        result("c2"),
        Message.assistant("There."),
        "and more",
        calls("c3"),
        result("c3"),
    ]
    whole = [message if isinstance(message, Message) else Message.user(message) for message in said]
    for dict_ in formats.write(whole, source)[:-1]:  # the last result is lost
        session.append(dict_, format=source)
    session.append("still there?")

    told = story(sent(session, provider))

    assert told[-2:] == [f"result c3: {NOT_STARTED}", "user: still there?"]
    assert [line.split()[1] for line in told if line.startswith("call")] == ["c1", "c2", "c3"]
