"""Secrets out of every text before it leaves extraction.

Runs on kept excerpts only, so its cost follows the hits, not the input. A secret becomes
`[redacted]`; what stands round it stays, so that a line keeps its identity.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MASK: Final = "[redacted]"
_PASSES: Final = 20  # a mask may end one secret and so begin another beside it; two are usual

_NAMED: Final = (
    r"(?:[\w.\-]{0,40}?(?:password|passwd|passphrase|secret|api[_\-]?key|apikey|access[_\-]?key"
    r"|private[_\-]?key|credential|client[_\-]?secret|auth[_\-]?token|access[_\-]?token"
    r"|refresh[_\-]?token|session[_\-]?token|sas[_\-]?token|hf[_\-]?token|github[_\-]?token"
    r"|account[_\-]?key|munge[_\-]?key)[\w\-]{0,20}|pwd"
    r"|[\w\-]{0,30}(?:db|sql|pg|redis|smtp|mail|ftp|user|admin|root|ssh|ldap|proxy|registry)[_\-]pass|[\w\-]{0,30}[_\-]token|token)"
)
_VALUE: Final = r"(?:\"[^\"\n]{1,4096}\"|'[^'\n]{1,4096}'|[^\s\"',;&|)}\]]{3,4096})"

# 'api_key': 'x', PASSWORD=x, "token": "x", password: x
_ASSIGNED: Final = re.compile(
    rf"(?i)(?<![\w\-])([\"']?{_NAMED}[\"']?\s{{0,3}}(?:=>|[=:]|%3[AaDd])\s{{0,3}})"
    rf"(?!(?:Bearer|Basic)\b|\[redacted\])({_VALUE})"
)
_FLAG: Final = re.compile(  # --api-key x, -pwd x
    rf"(?i)(?<!\S)(--?{_NAMED}\s{{1,3}})(?!-)({_VALUE})"
)
_NOT_SECRET: Final = re.compile(  # values that say there is none, or that counts are counted
    r"^[\"']?(?:none|null|true|false|nil|undefined|not|missing|\*+|<[^>]*>|\d{1,9}(?:\.\d+)?"
    r"|\[redacted\]?)[\"']?$",
    re.IGNORECASE,
)
_WHOLE: Final = re.compile(
    r"\b(?:"
    r"hf_[A-Za-z0-9]{20,64}"  # Hugging Face
    r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[\w\-]{16,64}"
    r"|(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}"  # AWS key ids
    r"|sk-(?:ant-|proj-)?[A-Za-z0-9_\-]{20,200}|xox[abeoprs]-[\w\-]{10,200}"
    r"|AIza[\w\-]{35}|ya29\.[\w\-]{20,400}|nvapi-[\w\-]{20,100}|dop_v1_[a-f0-9]{64}"
    r"|npm_[A-Za-z0-9]{36}|pypi-[\w\-]{40,300}|SG\.[\w\-]{16,32}\.[\w\-]{16,64}"
    r"|local-[a-f0-9]{40}"  # a self-hosted experiment tracker's key
    r"|eyJ[\w\-]{8,4096}\.eyJ[\w\-]{4,4096}\.[\w\-]{0,4096}"  # JSON web token
    r")"
)
_AUTHORIZATION: Final = re.compile(
    r"(?i)\b((?:bearer|basic)\s{1,3})([A-Za-z0-9._~+/\-]{12,4096}=*)"
)
_SCHEMED: Final = re.compile(  # Authorization: Token x, Authorization: x, Cookie: a=x; b=y
    r"(?i)\b((?:proxy-)?authorization[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?:(?:token|apikey|digest)\s{1,3})?"
    r"|(?<![\w-])(?:set-)?cookie[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?=[\w.\-]{1,64}=))"
    r"(?!(?:Bearer|Basic|Token|ApiKey|Digest)\b|\[redacted\])([^\s\"',&|)}\]]{6,4096})"
)
_WEBHOOK: Final = re.compile(  # whoever knows the path may post
    r"(?i)(https?://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks"
    r"|[\w\-]{1,63}\.webhook\.office\.com/webhookb2)/)([\w/@\-]{8,1024})"
)
_URL: Final = re.compile(
    r"(?i)\b([a-z][a-z0-9+.\-]{1,20}://)([^\s/@:\"'<>]{0,256}):([^\s/@\"'<>]{1,512})@"
)
_URL_USER_TOKEN: Final = re.compile(r"(?i)\b(https?://)([A-Za-z0-9_\-]{20,256})@")
_SIGNED_URL: Final = re.compile(
    r"(?i)([?&](?:X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature"
    r"|Signature|sig|AWSAccessKeyId|key|token|api_key)=)([^&\s\"']{6,4096})"
)
_KEY_BLOCK: Final = re.compile(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[\s\S]{0,16384}?"
    r"(-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
)
_KEY_BEGIN: Final = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")
_KEY_END: Final = re.compile(r"-----END [A-Z ]{0,30}PRIVATE KEY-----")
# The last word of a line of the block's body: MIIEvQIBADANBgkq..., 64 or 76 characters.
_KEY_LINE: Final = re.compile(r"(?=[^\d]{0,80}\d)[A-Za-z0-9+/]{60,80}={0,2}")
_KEY_REST: Final = re.compile(r"[A-Za-z0-9+/]{1,80}={0,2}")
_ROUND_KEYS: Final = " \t\r\"',"
_KEY_LINES: Final = 400  # a key of 16 Ki bits has some 200
_WANDB: Final = re.compile(
    r"(?i)(wandb[^\n]{0,60}?\b(?:login|key|relogin)\b[^\n]{0,20}?)\b([a-f0-9]{40})\b"
)
_EMAIL: Final = re.compile(  # ada.lovelace@example.org
    r"(?<![\w.+\-])[\w.+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,6}\b"
)
_HOME: Final = re.compile(  # /home/ada/train.py, /Users/ada, /nfs/home/ada/x
    r"/(?:home|Users|homes)/(?!\[redacted\])([^/\s\"':,;)\]]{1,64})"
)
_VARIABLE: Final = re.compile(  # REGISTRY_AUTH=x, SENTRY_DSN=x, as environments and scripts write
    r"(?<![\w\-])([A-Z][A-Z0-9_]{0,60}_(?:KEY|AUTH|PASS|PWD|PAT|CREDS?|DSN|COOKIE|SALT|SIG)[\"']?"
    rf"\s{{0,3}}[=:]\s{{0,3}})(?!\[redacted\])({_VALUE})"
)
_AUTH: Final = re.compile(  # "auth": "dXNlcjpwYXNz" of Docker, _auth=dXNlcjpwYXNz of npm
    r"((?<![\w\-])(?:\"auth\"\s{0,3}:\s{0,3}\"|_auth\s{0,3}=\s{0,3}))([A-Za-z0-9+/=_\-]{8,4096})"
)
_COMMAND: Final = re.compile(  # mysql -u root -pX, sshpass -p X, docker login -p X, redis-cli -a X
    r"(?<![\w.])((?:(?:mysql|mariadb)[\w\-]{0,12}\b[^\n|;&]{0,300}?\s-p(?=\S)"
    r"|(?:sshpass\s{1,3}|(?:mongo\w{0,8}|(?:docker|podman|helm|oras|skopeo)\s[^\n|;&]{0,60}?login)\b"
    r"[^\n|;&]{0,300}?\s)-p\s{0,3}"
    r"|redis-cli\b[^\n|;&]{0,300}?\s-a\s{1,3}"
    r"|(?:curl|wget|http)\b[^\n|;&]{0,600}?\s(?:-u|--user|--proxy-user)[\s=]{0,3}"
    r"[\"']?[^\s:\"'|;&]{1,128}:"
    r"|smbclient\b[^\n|;&]{0,300}?\s-U\s{0,3}[\"']?[^\s%\"']{1,128}%"
    r"|machine\s{1,3}\S{1,255}\s{1,3}login\s{1,3}\S{1,128}\s{1,3}password\s{1,3}"
    r"|-pass(?:in|out)?\s{1,3}pass:))"
    rf"(?!\[redacted\])({_VALUE})"
)
_HINTS: Final = (  # in lower case and without digits; most excerpts hold none of them
    "secret", "key", "credential", "token", "pwd", "bearer", "basic ", "://",
    "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat", "akia", "asia", "agpa",
    "aida", "aroa", "anpa", "sk-", "xox", "aiza", "ya", "nvapi", "dop_v", "npm_", "pypi-",
    "sg.", "local-", "eyj", "private", "sig", "cookie", "webhook", "hooks.",
    "auth", "mysql", "mariadb", "mongo", "login", "redis-cli", "curl", "wget",
    "http", "smbclient", "pass", "_pat", "_cred", "_dsn", "_salt",
)  # fmt: skip
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_DIGITS_COUNT: Final = (b"ya00", b"dop_v0", b"webhookb0")
"""Forms of the only words above in which one digit is not as good as another."""
_REMEMBERED: Final = 2048
_REMEMBERED_BYTES: Final = 512


class Redactor:
    """Masks secrets in excerpts; `extra_patterns` are a site's own regular expressions.

    In an extra pattern with a group only the first group is masked, else the whole match.
    `emails` masks addresses, `home_paths` whose home directory a path is in; both tell people
    apart, not systems, so a site chooses. Raises `re.error` for a pattern that does not compile.
    """

    def __init__(
        self, extra_patterns: Iterable[str] = (), *, emails: bool = False, home_paths: bool = False
    ) -> None:
        self._extra = [re.compile(pattern) for pattern in extra_patterns]
        self._extra += [_EMAIL] if emails else []
        self._extra += [_HOME] if home_paths else []
        self._hinted: dict[bytes, bool] = {}
        self._clean: set[bytes] = set()  # forms with a hint and no secret

    def text(self, text: str) -> str:
        """Return `text` without secrets; idempotent as far as the site's patterns are."""
        for pattern in self._extra:
            text = pattern.sub(_mask_group, text)
        form = _form(text)
        if form in self._clean or not self._may_hold_secret(text, form):
            return text
        return self._masked(text, form)

    def _masked(self, text: str, form: bytes) -> str:
        given = text
        for _ in range(_PASSES):
            masked = self._once(text)
            if masked == text:
                break
            text = masked
        if form and text == given and all(word not in form.lower() for word in _DIGITS_COUNT):
            if len(self._clean) >= _REMEMBERED:
                self._clean.clear()
            self._clean.add(form)
        return text

    def lines(self, texts: Sequence[str]) -> list[str]:
        """Return lines that follow one another, each without secrets; never more, never fewer.

        A secret of several lines, of which perhaps only some are there, takes its lines whole.
        """
        masked = [self.text(text) for text in texts]
        for number in sorted({*_key_lines(texts), *self._spanned(texts)}):
            masked[number] = MASK
        return masked

    def _spanned(self, texts: Sequence[str]) -> Iterator[int]:
        """Yield the lines that a site's pattern matches across their ends."""
        if not self._extra:
            return
        joined = "\n".join(texts)
        for pattern in self._extra:
            for match in pattern.finditer(joined):
                if "\n" in match[0]:
                    first = joined.count("\n", 0, match.start())
                    yield from range(first, first + match[0].count("\n") + 1)

    def _may_hold_secret(self, text: str, form: bytes) -> bool:
        """Whether a hint is in the text; texts that differ in digits alone are looked at once."""
        if not form:
            return _has_hint(text)
        if form not in self._hinted:
            if len(self._hinted) >= _REMEMBERED:
                self._hinted.clear()
            self._hinted[form] = _has_hint(text)
        return self._hinted[form]

    @staticmethod
    def _once(text: str) -> str:
        text = _KEY_BLOCK.sub(rf"\1{MASK}\2", text)
        text = _WHOLE.sub(MASK, text)
        text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
        text = _SCHEMED.sub(rf"\1{MASK}", text)
        text = _WEBHOOK.sub(rf"\1{MASK}", text)
        text = _URL.sub(rf"\1\2:{MASK}@", text)
        text = _URL_USER_TOKEN.sub(rf"\1{MASK}@", text)
        text = _SIGNED_URL.sub(rf"\1{MASK}", text)
        text = _WANDB.sub(rf"\1{MASK}", text)
        text = _COMMAND.sub(_mask_value, text)
        text = _AUTH.sub(rf"\1{MASK}", text)
        text = _VARIABLE.sub(_mask_value, text)
        text = _FLAG.sub(_mask_value, text)
        return _ASSIGNED.sub(_mask_value, text)


def _key_lines(texts: Sequence[str]) -> Iterator[int]:
    """Yield the lines of private keys, of which begin or end may be missing."""
    begun: int | None = None
    for number, text in enumerate(texts):
        is_edge = "PRIVATE KEY" in text
        if is_edge and _KEY_BEGIN.search(text):
            begun = number
        elif is_edge and _KEY_END.search(text):
            yield from range(number if begun is None else begun, number + 1)
            if begun is None and number and _KEY_REST.fullmatch(_last_word(texts[number - 1])):
                yield number - 1
            begun = None
        elif _is_key_line(text):
            yield number
    if begun is not None:
        yield from range(begun, min(len(texts), begun + _KEY_LINES))


def _is_key_line(text: str) -> bool:
    tail = text.rstrip(_ROUND_KEYS)[-60:]
    if len(tail) < 60 or " " in tail:
        return False
    word = _last_word(text)
    return len(word) <= 82 and _KEY_LINE.fullmatch(word) is not None


def _last_word(text: str) -> str:
    text = text.rstrip(_ROUND_KEYS)
    return text[max(text.rfind(mark) for mark in _ROUND_KEYS) + 1 :]


def _form(text: str) -> bytes:
    """What texts that differ in digits alone have in common; empty for a long text."""
    if len(text) > _REMEMBERED_BYTES:
        return b""
    return text.encode("utf-8", "replace").translate(_DIGITS)


def _has_hint(text: str) -> bool:
    low = text.lower()
    return any(hint in low for hint in _HINTS)


def _mask_value(match: re.Match[str]) -> str:
    value = match[2]
    if _NOT_SECRET.match(value):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match[1]}{quote}{MASK}{quote}"


def _mask_group(match: re.Match[str]) -> str:
    if not match.re.groups or match[1] is None:
        return MASK
    start, end = match.span(1)
    base = match.start()
    return match[0][: start - base] + MASK + match[0][end - base :]
