"""Secrets in what leaves the house: keys and passwords that sit in nearly every transcript, masked unless asked not to.

A pattern is a name, words one of which must occur (looking for those first is what makes it quick), and what a secret
of that kind looks like. Where the pattern has a group named `secret`, only that is masked, and what stands around it
stays readable. This set is documented in docs/transcripts.md; a test compares the two."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NamedTuple

MASK = "[masked: {}]"
TELLING = ("key", "token", "secret", "passw", "pwd", "credential", "authorization")  # parts of names


class Pattern(NamedTuple):
    name: str
    words: tuple[str, ...]  # in lower case
    looks: re.Pattern[str]
    near: re.Pattern[str] | None = None  # what must occur, too, where the words are those of everyday

    def may_be_in(self, low: str) -> bool:
        """Whether it is worth looking for it in a text, given in lower case."""
        return any(word in low for word in self.words) and (self.near is None or self.near.search(low) is not None)


def _pattern(name: str, words: str, looks: str, near: str | None = None) -> Pattern:
    return Pattern(name, tuple(words.split()), re.compile(looks), None if near is None else re.compile(near))


NOT_INSIDE = r"(?<![A-Za-z0-9+/=_-])"  # a key that is part of something longer is no key: base64 is full of them
NOR_BEFORE = r"(?![A-Za-z0-9+/=_-])"

# The order matters where two could match: the one that says more comes first.
PATTERNS = (
    _pattern(
        "private key",
        "private",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]*?(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    _pattern("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _pattern("OpenRouter key", "sk-or-", r"sk-or-(?:v1-)?[A-Za-z0-9]{32,}"),
    _pattern("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}"),
    _pattern("key", "sk-", rf"{NOT_INSIDE}sk-[A-Za-z0-9]{{32,}}{NOR_BEFORE}"),
    _pattern("Stripe key", "k_live_ k_test_ whsec_", r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    _pattern("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _pattern("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{30,}"),
    _pattern("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,}"),
    _pattern("Slack token", "xox xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    _pattern("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,})"),
    _pattern("Google key", "aiza", rf"{NOT_INSIDE}AIza[A-Za-z0-9_-]{{35}}{NOR_BEFORE}"),
    _pattern("Google token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
    _pattern("AWS key id", "akia asia", rf"{NOT_INSIDE}A(?:KI|SI)A[A-Z2-7]{{16}}{NOR_BEFORE}"),
    _pattern("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _pattern("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_-]{50,}"),
    _pattern("Hugging Face token", "hf_", rf"{NOT_INSIDE}hf_[A-Za-z0-9]{{30,}}"),
    _pattern("Groq key", "gsk_", rf"{NOT_INSIDE}gsk_[A-Za-z0-9]{{40,}}"),
    _pattern("xAI key", "xai-", rf"{NOT_INSIDE}xai-[A-Za-z0-9]{{40,}}"),
    _pattern("Perplexity key", "pplx-", rf"{NOT_INSIDE}pplx-[A-Za-z0-9]{{40,}}"),
    _pattern("SendGrid key", "sg.", rf"{NOT_INSIDE}SG\.[A-Za-z0-9_-]{{20,99}}\.[A-Za-z0-9_-]{{20,99}}"),
    _pattern("Telegram token", ":aa", rf"{NOT_INSIDE}[0-9]{{8,10}}:AA[A-Za-z0-9_-]{{33}}{NOR_BEFORE}"),
    _pattern("JSON web token", "eyj", r"eyJ[A-Za-z0-9_-]{8,999}\.eyJ[A-Za-z0-9_-]{8,9999}\.[A-Za-z0-9_-]{8,}"),
    _pattern(
        "credentials",
        "authorization x-api-key api-key",
        r"(?i)(?:authorization|x-api-key|api-key)[\\\"']{0,4}\s*[:=]\s*[\\\"']{0,4}(?:(?:bearer|basic|token)\s+)?"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{12,})",
    ),
    _pattern("credentials", "bearer", r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{20,})"),
    _pattern(
        "password", "://", r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@'\"<>]{0,99}:(?P<secret>[^\s/:@'\"<>]{1,999})@"
    ),
    _pattern(  # NAME=value, "name": "value": masked where the value has letters and digits, as words of code rarely do
        "secret",
        "key token secret password passwd pwd credential",
        r"(?i)(?:api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|token|secret|password|passwd|pwd|credentials?)"
        r"[\\\"']{0,4}\s{0,9}(?:=|:=|:|=>)\s{0,9}[\\\"']{0,4}"  # in JSON that is text in JSON, quotes are escaped
        r"(?=[^\s\"']{0,99}[0-9])(?=[^\s\"']{0,99}[A-Za-z])(?P<secret>[A-Za-z0-9._~+/!@#$%^&*=-]{8,})",
        r"(?:key|token|secret|password|passwd|pwd|credentials?)[\\\"']{0,4}\s{0,9}[:=]",
    ),
)


# The same as the words of all patterns, told by rare characters first: most bodies hold none, and are many.
_SIGNS = (
    re.compile(
        rb"-(?:(?<=sk-)|(?<=glpat-)|(?<=xox[abeoprs]-)|(?<=xapp-)|(?<=pypi-)|(?<=xai-)|(?<=pplx-)|(?<=-----)|(?=key))"
    ),
    re.compile(rb"_(?:(?=live_|test_)|(?<=whsec_)|(?<=gh[pousr]_)|(?<=github_pat_)|(?<=npm_)|(?<=hf_)|(?<=gsk_))"),
    re.compile(rb"\.(?:(?<=ya29\.)|(?<=sg\.)|(?=slack\.com))"),
    re.compile(rb":(?:(?=//)|(?=aa))"),
    re.compile(rb"(?:key|token|secret|password|passwd|pwd|credentials?)[\\\"']{0,4}\s{0,9}[:=]"),
)
_PLAIN = (b"aiza", b"akia", b"asia", b"eyj", b"bearer", b"authorization")


def may_hold_secrets(body: bytes) -> bool:
    """Whether it is worth decoding JSON to look for secrets."""
    low = body.lower()
    return any(sign.search(low) for sign in _SIGNS) or any(word in low for word in _PLAIN)


class Mask:
    """Masks secrets, and counts what it found, by kind."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """The text with every secret masked; the same object where there is none."""
        low = text.lower()
        for pattern in PATTERNS:
            if pattern.may_be_in(low):
                text = pattern.looks.sub(lambda found, name=pattern.name: self._masked(found, name), text)  # type: ignore[misc]
        return text

    def _masked(self, found: re.Match[str], name: str) -> str:
        self.found[name] += 1
        whole, mask = found[0], MASK.format(name)
        if "secret" not in found.re.groupindex:
            return mask
        start = found.start()
        return whole[: found.start("secret") - start] + mask + whole[found.end("secret") - start :]

    def json(self, body: bytes) -> bytes:
        """JSON with the secrets in its strings masked; the same object where there is none."""
        if not may_hold_secrets(body):
            return body
        value = json.loads(body.decode("utf-8", "surrogatepass"))
        masked = self.value(value)
        if masked == value:
            return body
        told = json.dumps(masked, ensure_ascii=False, separators=(",", ":"))
        return told.encode("utf-8", "surrogatepass")

    def value(self, value: Any) -> Any:
        """The same for what JSON holds. The bytes of media are left as they are: they are no text."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if not isinstance(value, dict):
            return value
        media = value.get("type") == "media"
        return {
            self.text(name): each if media and name == "data" else self._named(name, each)
            for name, each in value.items()
        }

    def _named(self, name: str, value: Any) -> Any:
        """A value that may be known for a secret by its name only, as in `"password": "s3cr3t"`."""
        masked = self.value(value)
        if masked is not value or not isinstance(value, str) or not any(word in name.lower() for word in TELLING):
            return masked
        told = f"{name}: "
        return self.text(told + value).removeprefix(told)


class NoMask(Mask):
    """Masks nothing: what `raw` asks for."""

    def text(self, text: str) -> str:
        return text

    def json(self, body: bytes) -> bytes:
        return body

    def value(self, value: Any) -> Any:
        return value


def mask_for(raw: bool) -> Mask:
    return NoMask() if raw else Mask()
