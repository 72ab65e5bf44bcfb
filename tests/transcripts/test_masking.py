"""Secrets are masked in what leaves the house, in every format, unless somebody asks for them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline import Media, Message, Reasoning, Store, ToolCall, transcripts
from threadline.transcripts.masking import PATTERNS, Mask

AB = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6hJ9kL2nP5rS8tU"
CAPITALS = "ABCDEFGHIJKLMNOP"

# One of each kind, put together here so that nobody takes them for real ones.
SECRETS = {
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE " + "KEY-----",
    "Anthropic key": "sk-ant-" + "api03-" + AB,
    "OpenRouter key": "sk-or-" + "v1-" + AB,
    "OpenAI key": "sk-proj-" + AB,
    "key": "sk-" + AB,
    "Stripe key": "sk_live_" + AB[:24],
    "GitHub token": "ghp_" + AB[:36],
    "GitLab token": "glpat-" + AB[:20],
    "Slack token": "xoxb-" + "123456789012-" + AB[:24],
    "Slack webhook": "T00000000/B00000000/" + AB[:24],
    "Google key": "AIza" + AB[:35],
    "Google token": "ya29." + AB,
    "AWS key id": "AKIA" + CAPITALS,
    "npm token": "npm_" + AB[:36],
    "PyPI token": "pypi-" + AB + AB,
    "Hugging Face token": "hf_" + AB[:34],
    "Groq key": "gsk_" + AB,
    "xAI key": "xai-" + AB,
    "Perplexity key": "pplx-" + AB,
    "SendGrid key": "SG." + AB[:22] + "." + AB[:43],
    "Telegram token": "123456789:" + "AA" + AB[:33],
    "JSON web token": "eyJ" + AB[:20] + ".eyJ" + AB[:30] + "." + AB[:30],
    "credentials": "dXNlcjpwYXNzd29yZDEyMw==",
    "password": "hunter2",
    "secret": "s3cr3t-Value",
}
AROUND = {
    "Slack webhook": "https://hooks.slack.com/services/{}",
    "credentials": "Authorization: Basic {}",
    "password": "postgresql://ada:{}@db.example/shop",
    "secret": "export DB_PASSWORD='{}'",
}


def said(kind: str) -> str:
    return "before " + AROUND.get(kind, "{}").format(SECRETS[kind]) + " after"


def test_there_is_an_example_of_every_kind() -> None:
    assert {pattern.name for pattern in PATTERNS} == {*SECRETS}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_masked_and_what_stands_around_it_is_not(kind: str) -> None:
    mask = Mask()
    masked = mask.text(said(kind))

    assert SECRETS[kind] not in masked
    assert f"[masked: {kind}]" in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert mask.found == {kind: 1}
    assert mask.text(masked) == masked


HARMLESS = [
    "token = get_token(request)",
    "max_tokens: 4096",
    "password = form.password",
    "a task-oriented risk-averse disk-based desk",
    "https://example.org:8080/path?q=a@b.c",
    "git commit 3f2a9c1b7d4e8f60a1b2c3d4e5f60718293a4b5c",
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    "the secret: nobody reads this",
    "def secret_key(self) -> str:",
    "AKIA is a prefix, sk- too, and eyJ as well",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Mask().text(text) == text


@given(st.text(max_size=200))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = Mask().text(text)

    assert Mask().text(once) == once


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_found_in_json_as_well(kind: str) -> None:
    nested = {"role": "tool", "parts": [{"type": "result", "output": json.dumps({"said": said(kind)})}]}

    for value in ({"text": said(kind)}, nested):
        assert SECRETS[kind] not in json.loads(Mask().json(json.dumps(value).encode())).__str__()


def test_a_value_that_only_its_name_tells_is_masked() -> None:
    value = {"password": "s3cr3t-Value", "deep": [{"api_key": "abc12345"}], "name": "abc12345", "tokens": 12345678}

    assert Mask().value(value) == {
        "password": "[masked: secret]",
        "deep": [{"api_key": "[masked: secret]"}],
        "name": "abc12345",
        "tokens": 12345678,
    }


@pytest.mark.parametrize(
    "format", ["jsonl", "openai", "anthropic", "markdown", "html", "mycode", "nanobot", "power-loop"]
)
def test_an_argument_that_only_its_name_tells_leaves_in_no_format(store: Store, tmp_path: Path, format: str) -> None:
    session = store.new(id="x")
    session.append(Message.assistant("I log in.", ToolCall("c", "login", {"password": "s3cr3t-Value", "text": "a\nb"})))
    session.append(Message.tool("c", "done"))
    transcripts.write(session, tmp_path / "out", format)
    written = [tmp_path / "out", *(tmp_path / "out").rglob("*")]

    assert all(b"s3cr3t-Value" not in file.read_bytes() for file in written if file.is_file())


def test_the_bytes_of_a_picture_are_left_alone() -> None:
    body = json.dumps(
        {"role": "user", "parts": [{"type": "media", "mime": "image/png", "data": "AKIA" + CAPITALS}]}
    ).encode()

    assert Mask().json(body) is body


@pytest.mark.parametrize(
    "text",
    ["eyJ" * 200_000, "a-" * 300_000 + "://", "token" * 100_000 + "=", "sk-ant-" * 90_000, "A" * 10**6 + " ://x"],
)
def test_no_text_takes_long(text: str) -> None:
    begun = process_time()
    Mask().text(text)

    assert process_time() - begun < 5


@pytest.mark.parametrize("format", ["jsonl", "openai", "anthropic", "markdown", "html"])
def test_no_secret_leaves_in_any_format_unless_asked_for(store: Store, tmp_path: Path, format: str) -> None:
    key = SECRETS["Anthropic key"]
    session = store.new(title=f"about {key}", system=f"use {key}", meta={"key": key}, id="x")
    session.append(f"here: {key}")
    session.append(
        Message.assistant(
            f"got {key}", Reasoning(key), ToolCall("c", "t", {"key": key, key: 1}), ToolCall("d", "t", key)
        )
    )
    session.append(Message.tool("c", f"it is\n{key}"))
    session.append(Message.user("look", Media("text/plain", None, f"https://x/{key}", key)))
    session.compact(f"folded {key}", upto=1)
    session.note({"key": key})
    session.enqueue(f"waits {key}")
    draft = session.draft()
    draft.write(f"half {key}")
    draft.let_go()
    masked = transcripts.write(session, tmp_path / "masked", format).masked
    bare = transcripts.write(session, tmp_path / "raw", format, raw=True).masked

    assert key not in (tmp_path / "masked").read_text(encoding="utf-8")
    assert key in (tmp_path / "raw").read_text(encoding="utf-8")
    assert masked["Anthropic key"] > 3
    assert bare == {}


def test_every_pattern_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transcripts.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| ([\w ]+) \| `", page, re.MULTILINE))

    assert {pattern.name for pattern in PATTERNS} <= told
