"""What people read, and what providers take: Markdown, one page of HTML, and message JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import threadline
from threadline import (
    InvalidArgument,
    Media,
    Message,
    NotFound,
    Other,
    Reasoning,
    Session,
    Store,
    Text,
    ToolCall,
    ToolResult,
    formats,
    transcripts,
)
from threadline.transcripts import highlight

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</details></section></main></body>",
    "</style><script>x</script>",
    "</code></pre><iframe src=//evil>",
    '[x](javascript:alert(1)) [y](data:text/html,x) [z](https://a.example/"onmouseover=alert(1)//)',
    "```\n</code><script>\n```",
    "`</code><b onclick=x>`",
    "'\" onload=alert(1) x='",
    "&lt;script&gt; &#60;script&#62;",
    "\u202e\0\x1b[31m\ud800\ufeff",
    "| <th> | <td> |\n|---|---|\n| <script> | x |",
    "- <li onclick=x>\n  - </ul><script>",
    "> </blockquote><script>",
    "# </h3><script>",
    "![x](https://evil.example/pixel.png)",
    "--><!-- <![CDATA[",
)
ANYTHING = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=60),
    st.lists(st.sampled_from([*HOSTILE, *"<>&\"'`*_[]()|#~-\n"]), max_size=6).map("".join),
)

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h3", "h4", "h5", "h6", "dl", "div"),
    *(
        "dt",
        "dd",
        "section",
        "span",
        "a",
        "time",
        "p",
        "details",
        "summary",
        "code",
        "pre",
        "strong",
        "em",
        "del",
        "br",
    ),
    *("hr", "ul", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "img"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "rel", "datetime", "alt", "src"),
}
SAID = ("first question", "second question", "def f(): return 1", "what was found", "please review", "approved")
LONG = ("*" * 20_000, "`" * 20_000, "[" * 20_000, "<" * 20_000, "- " * 10_000, "'" * 20_000, "a(" * 9_000)


class Checked(HTMLParser):
    """Reads a page as a browser does, and names whatever we would never write."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.wrong.append(f"<{tag}>")
        for name, value in attrs:
            if name not in ATTRIBUTES:
                self.wrong.append(f"{tag} {name}=")
            if name == "href" and not re.match(r"https?://|#e\d+$", value or ""):
                self.wrong.append(f"href={value}")
            if name == "src" and not re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$", value or ""):
                self.wrong.append(f"src={value}")
        if tag not in ("meta", "br", "hr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> where it does not belong")

    def handle_comment(self, data: str) -> None:
        self.wrong.append("a comment")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(session: Session, tmp_path: Path, **options: Any) -> str:
    transcripts.write(session, tmp_path / "page.html", "html", **options)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def talk(store: Store) -> Session:
    """A session with all that a page shows."""
    session = store.new(title="a title", agent="coder", model="m", system="Be kind.", tags=["red"], id="talk")
    session.append("first question")
    session.append(Message.assistant("let me look", Reasoning("hm"), ToolCall("c1", "read", {"path": "a.py"})))
    session.append(Message.tool("c1", "def f(): return 1"))
    session.append(Message.assistant("## Found\n\n```python\nx = 1  # one\n```"))
    session.append(Message.user("second question", Media("image/png", b"\x89PNG", name="shot")))
    session.append(Message.assistant(None, ToolCall("c2", "spawn", {"task": "review"}), ToolCall("c3", "bash", {})))
    child = session.spawn("reviewer", call_id="c2")
    child.append("please review")
    child.finish("approved")
    session.append(Message.tool("c3", [Text("ok"), Other({"x": 1})], error=True))
    session.append(Message.assistant("done"))
    session.compact("what was found", upto=4)
    session.append("rewound")
    session.rewind(session.head - 1)
    return session


@pytest.fixture(scope="module")
def memory() -> Iterator[Store]:
    with threadline.open(":memory:") as store:
        yield store


# -- HTML ----------------------------------------------------------------------------------------------


def test_a_page_shows_all_that_was_said_and_what_was_folded(store: Store, tmp_path: Path) -> None:
    html = page(talk(store), tmp_path)
    checked = Checked(html)
    text = "".join(checked.text)

    assert (checked.wrong, checked.open) == ([], [])
    for said in (
        "first question",
        "second question",
        "def f(): return 1",
        "what was found",
        "please review",
        "approved",
    ):
        assert said in text
    assert "4 folded entries" in text
    assert "Be kind." in text
    assert "2 entries of the log are not part of this view" in text  # what was rewound, and the rewind
    assert 'class="call failed"' in html
    assert 'src="data:image/png;base64,' in html


def test_texts_of_several_lines_are_shown_without_escapes(store: Store, tmp_path: Path) -> None:
    session = store.new()
    session.append(
        Message.assistant(None, ToolCall("c", "edit", {"path": "a.py", "old": "one = 1\ntwo = 2\n", "n": 3}))
    )
    text = "".join(Checked(page(session, tmp_path)).text)

    assert "one = 1\ntwo = 2" in text
    assert '"path": "a.py",\n  "n": 3' in text


@pytest.mark.parametrize("end", [".", ",", "!", "?", ":", ";", "**", ")."])
def test_what_ends_a_sentence_is_no_part_of_a_link(end: str) -> None:
    assert 'href="https://a.example/b?c=1"' in highlight.markdown(f"See https://a.example/b?c=1{end}")


def test_a_command_that_ends_like_a_file_prints_no_code(store: Store, tmp_path: Path) -> None:
    session = store.new()
    session.append(Message.assistant(None, ToolCall("c", "bash", {"command": "pytest -q tests/test_it.py"})))
    session.append(Message.tool("c", "1 passed in 2 seconds"))

    assert "1 passed in 2 seconds" in page(session, tmp_path)


def test_a_page_needs_nothing_from_outside_and_runs_nothing(store: Store, tmp_path: Path) -> None:
    html = page(talk(store), tmp_path)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)

    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert not re.search(r"<(script|link|iframe|object|embed|form|base)\b|@import|url\(|\bstyle=", html)


def test_the_policy_allows_exactly_our_style(store: Store, tmp_path: Path) -> None:
    from base64 import b64encode
    from hashlib import sha256

    html = page(talk(store), tmp_path)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)

    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in html


@settings(max_examples=100, deadline=None)
@given(said=st.lists(ANYTHING, min_size=9, max_size=9))
def test_nothing_that_was_said_gets_out_of_its_place(memory: Store, tmp_path_factory: Any, said: list[str]) -> None:
    one, two, three, four, five, six, seven, eight, nine = said
    session = memory.new(title=one or None, agent=two or None, cwd=three or None, system=four or None, meta={"x": one})
    session.append(
        Message.user(five, Media(six, None, seven, eight), Media("image/png", nine.encode("utf-8", "replace")))
    )
    session.append(Message.assistant(six, Reasoning(seven), ToolCall("c", eight, {nine: one, "path": two})))
    session.append(
        Message("tool", (ToolResult("c", three, True, four), ToolResult(five, [Text(six), Other({"a": seven})])))
    )
    session.append(Message(eight or "x", (Text(nine), Other({one: two}))))
    session.append(Message.assistant(None, ToolCall("d", three, four)))
    session.spawn(five or None, call_id="d").append(six)
    checked = Checked(page(session, tmp_path_factory.mktemp("page")))

    assert (checked.wrong, checked.open) == ([], [])


@settings(max_examples=300, deadline=None)
@given(text=ANYTHING, language=st.sampled_from(["", "python", "js", "sql", "diff", "text", "<script>"]))
def test_markdown_and_code_lose_no_letter_and_add_no_tag(text: str, language: str) -> None:
    for html in (highlight.markdown(text), highlight.block(text, language), highlight.inline(text)):
        assert (Checked(html).wrong, Checked(html).open) == ([], [])
    shown = "".join(Checked(highlight.code(text, language)).text)

    assert shown == "".join(Checked(highlight.safe(text)).text)


@pytest.mark.parametrize(
    "text", ["*" * 20_000, "`" * 20_000, "[" * 20_000, "<" * 20_000, "- " * 10_000, "'" * 20_000, "a(" * 9_000]
)
def test_no_text_takes_long(text: str) -> None:
    from time import process_time

    begun = process_time()
    highlight.markdown(text)
    highlight.code(text)

    assert process_time() - begun < 2


# -- Markdown ------------------------------------------------------------------------------------------


def test_markdown_tells_the_same(store: Store, tmp_path: Path) -> None:
    transcripts.write(talk(store), tmp_path / "a.md", "markdown")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")

    assert text.startswith("# a title\n")
    for said in (
        "first question",
        "second question",
        "def f(): return 1",
        "what was found",
        "please review",
        "approved",
    ):
        assert said in text
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.parametrize("said", ["```\nnever ended", "~~~~\n```\nx", "</details><script>x</script>", "a `<b>` <c>"])
def test_no_message_swallows_the_next_one(store: Store, tmp_path: Path, said: str) -> None:
    session = store.new()
    session.append(said)
    session.append(Message.assistant(None, ToolCall("c", "t", {"x": "```\n````"})))
    session.append(Message.tool("c", "`````\n</details>"))
    session.append("the next one")
    transcripts.write(session, tmp_path / "a.md", "markdown")
    lines = (tmp_path / "a.md").read_text(encoding="utf-8").splitlines()
    fence, outside = "", []
    for line in lines:
        found = re.match(r"(`{3,}|~{3,})", line)
        if fence:
            fence = "" if found and found[1].startswith(fence) and not line.strip(fence[0]) else fence
        elif found:
            fence = found[1]
        else:
            outside.append(re.sub(r"`[^`]*`", "", line))

    assert "the next one" in outside
    assert not re.search(r"<(?!/?(details|summary|code)>)", "\n".join(outside))
    assert "\n".join(outside).count("</details>") == "\n".join(outside).count("<details>")


# -- what providers take -------------------------------------------------------------------------------

OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "assistant", "content": "bye", "refusal": None},
]  # fmt: skip
ANTHROPIC = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
                                      {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "bye"}]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("openai", {"model": "gpt-x", "temperature": 1, "tools": [{"x": 1}], "messages": OPENAI}),
        ("anthropic", {"model": "claude-x", "max_tokens": 9, "system": "Be kind.", "messages": ANTHROPIC}),
        ("anthropic", {"system": [{"type": "text", "text": "Be kind."}], "messages": ANTHROPIC}),
    ],
)
def test_a_conversation_comes_out_as_it_came_in(
    store: Store, tmp_path: Path, format: str, document: dict[str, Any]
) -> None:
    (tmp_path / "in.json").write_text(json.dumps(document))
    report = transcripts.read(tmp_path / "in.json", store=store)
    again = transcripts.read(tmp_path / "in.json", store=store)
    transcripts.write(store.get(report.sessions[0]), tmp_path / "out.json", format)

    assert (report.problems, report.added, again.added) == ([], len(document["messages"]), 0)
    assert json.loads((tmp_path / "out.json").read_text()) == document


def test_a_bare_list_of_messages_is_a_conversation(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps(OPENAI))
    report = transcripts.read(tmp_path / "in.json", "openai", store=store)

    assert [m.role for m in store.get(report.sessions[0]).messages()] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_what_is_written_is_legal_there(store: Store, tmp_path: Path, format: str) -> None:
    session = store.new(system="Be kind.", model="m")
    session.append("hi")
    session.append(Message.assistant(None, ToolCall("c1", "t", {"a": 1})))
    session.append(Message.tool("c1", "done \ud800"))
    session.append(Message.assistant("bye"))
    transcripts.write(session, tmp_path / "out.json", format)
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))

    assert formats.problems(document["messages"], format) == []
    assert "Be kind." in json.dumps(document)
    assert document["model"] == "m"


@pytest.mark.parametrize("format", ["openai", "anthropic", "markdown", "html"])
def test_one_file_holds_one_session(store: Store, tmp_path: Path, format: str) -> None:
    sessions = [store.new(), store.new()]

    for what in (sessions, store):
        with pytest.raises(threadline.InvalidArgument, match="one session"):
            transcripts.write(what, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["jsonl", "html", "openai"])
def test_a_place_where_no_file_can_be_is_refused_in_our_words(store: Store, tmp_path: Path, format: str) -> None:
    session = talk(store)

    with pytest.raises(InvalidArgument, match="is a folder"):
        transcripts.write(session, tmp_path, format)
    with pytest.raises(NotFound, match="nowhere"):
        transcripts.write(session, tmp_path / "nowhere" / "out", format)


def test_names_in_the_place_of_what_they_name_are_refused(store: Store, tmp_path: Path) -> None:
    session = talk(store)

    with pytest.raises(InvalidArgument, match=r"store\.get"):
        transcripts.write(session.id, tmp_path / "out", "html")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"threadline\.open"):
        transcripts.read(tmp_path, store="agents.db")  # type: ignore[arg-type]
