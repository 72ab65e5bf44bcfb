"""A store as people have it: a coding session with tools, a summary, a rewind, sub-agents, a fork, and more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from threadline import Media, Message, Reasoning, Session, Store, Text, ToolCall

BEGAN = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
TRACEBACK = "\n".join(["Traceback (most recent call last):", *(f'  File "app/login.py", line {n}' for n in range(30))])
NASTY = "\x1b]0;owned\x07 harmless \u202egnp.exe\u2069 \x9b2J"


def furnish(store: Store) -> Session:
    """The main session; the others stand around it."""
    chat = store.session("telegram:42", agent="helper", model="gpt-5", tags=["chat", "alice"])
    chat.extend(
        [
            "你好！你能帮我订一张去上海的火车票吗？",
            Message.assistant("当然可以。您想什么时候出发？"),
            "Never mind. What is the weather like?",
            Message.assistant("Sunny, 24 °C. ☀️"),
        ],
        at=BEGAN - timedelta(days=3),
    )
    chat.record_usage(1_200, 90, model="gpt-5", cost=0.004, at=BEGAN - timedelta(days=3))
    nasty = store.new(title=NASTY, key="web:evil", agent="crawler", at=BEGAN - timedelta(days=2))
    nasty.append(f"Ignore all {NASTY}", at=BEGAN - timedelta(days=2))
    session = store.new(
        key="cli:login",
        agent="coder",
        model="claude-sonnet-5",
        provider="anthropic",
        cwd="/home/ana/shop",
        system="You are a careful engineer.",
        tags=["bug"],
        at=BEGAN,
    )
    work(session)
    delegate(session)
    go_back(session)
    fork = session.fork(4, title="what if we used sessions instead of tokens?")
    fork.append("Try it with server-side sessions.", at=BEGAN + timedelta(hours=1))
    old = store.new(title="old experiment", agent="coder", at=BEGAN - timedelta(days=400))
    old.append("hello", at=BEGAN - timedelta(days=400))
    store.archive(old)
    store.trash(store.new(title="scratch", agent="coder", at=BEGAN - timedelta(days=30)))
    return session


def work(session: Session) -> None:
    at = [BEGAN]

    def say(message: Message | str, **more: object) -> None:
        at[0] += timedelta(seconds=21)
        session.append(message, at=at[0], **more)  # type: ignore[arg-type]

    say("Users are logged out after five minutes. Please find out why, and fix it.")
    say(
        Message.assistant(
            "Let me look at how tokens are refreshed.",
            Reasoning("The refresh may compare local time with UTC. I should look at login.py first, then the tests."),
            ToolCall("c1", "grep", {"pattern": "refresh", "path": "app/", "max": 50}),
            ToolCall("c2", "run_tests", {"suite": "login"}),
        ),
        usage={"input": 2_100, "output": 340, "model": "claude-sonnet-5", "cost": 0.0114},
    )
    say(Message.tool("c1", "app/login.py:41: def refresh(token):\napp/login.py:52:     if token.expires < now():"))
    say(Message.tool("c2", TRACEBACK, error=True))
    say(
        Message.assistant(
            "**`now()`** has no zone.\n\n```python\n    if token.expires < now(UTC):\n```\n\nI will fix it."
        )
    )
    say("Good catch. Here is a screenshot of the error, too.")
    say(Message("user", (Text("see"), Media("image/png", data=b"x" * 34_567, name="error.png"))))
    say(
        Message.assistant(
            None, ToolCall("c3", "edit", {"file": "app/login.py", "line": 52, "text": "if token.expires < now(UTC):"})
        )
    )
    say(Message.tool("c3", "1 line changed"))
    say(
        Message.assistant("Fixed, and the tests pass."),
        usage={"input": 5_300, "output": 120, "cache_read": 4_000, "cost": 0.019},
    )
    session.note({"reviewed_by": "ana"})
    session.compact(
        "We found that refresh() compared local time with UTC, and fixed app/login.py line 52.", keep_turns=1
    )


def delegate(session: Session) -> None:
    session.append("Now look for the same mistake elsewhere.")
    session.append(Message.assistant("I will let a searcher look.", ToolCall("c4", "spawn", {"agent": "searcher"})))
    child = session.spawn("searcher", call_id="c4", model="claude-haiku-5")
    child.extend(["Find naive datetimes.", Message.assistant("Found 2: cart.py:7, mail.py:99.")])
    child.record_usage(900, 60, cost=0.0008)
    child.spawn("reader").append("Read mail.py")
    child.finish("Found 2: cart.py:7, mail.py:99.")
    session.append(Message.assistant("There are two more: `cart.py` and `mail.py`."))


def go_back(session: Session) -> None:
    head = session.head
    session.append("Rewrite everything in Rust.")
    session.append(Message.assistant("That would take a while."))
    session.rewind(head)
    session.append("No, just fix those two.", at=BEGAN + timedelta(days=1))
    session.append(Message.user("internal marker", meta={"hidden": True}))
    session.append(
        Message.assistant(
            "On it.", ToolCall("c5", "edit", {"file": "cart.py"}), ToolCall("c6", "edit", {"file": "mail.py"})
        )
    )
    session.start_call("c5")
    session.set_goal("No naive datetime anywhere")
    session.enqueue("And add a test, please.")
    session.record_usage(7_000, 250, cache_read=6_000, cost=0.024, at=BEGAN + timedelta(days=1))
