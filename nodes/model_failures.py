"""What can go wrong between us and a provider, and which foreign errors mean it.

Classes of foreign errors stand here by name: so no SDK needs to be imported, and any SDK is understood whose
errors carry a status or derive from LangChain's or httpx's.
"""

import re
from dataclasses import dataclass
from typing import Literal

from actloop.errors import ModelAccessDenied, ModelError, ModelRequestRefused, ModelUnavailable


@dataclass(frozen=True)
class Failure:
    """What an error means."""

    error: type[ModelError]
    code: str
    """What `code_of` says of the error that we raise."""
    retry: Literal["never", "sdk", "ours"] = "never"
    """`sdk`: worth a retry, which provider SDKs make themselves. `ours`: worth one that no SDK makes."""
    happened: str = ""
    """What happened; `{name}`, `{address}`, `{said}` and `{why}` stand for details."""
    step: str = ""
    """What to do next."""


class BadReply(ValueError):
    """An answer with status 200 that is no chat completion; `body` is the error in it, where there is one."""

    def __init__(self, message: str, body: object = None):
        super().__init__(message)
        self.message = message
        code = body.get("code") if isinstance(body, dict) else None
        self.code = None if code is None else str(code)


_OTHER = "choose another model with --model"
_ADDRESS = "Check that the server runs and that --base-url is its address"

UNREACHABLE = Failure(
    ModelUnavailable,
    "unreachable",
    "sdk",
    "{address} cannot be reached ({why})",
    f"{_ADDRESS}, then try again",
)
TIMEOUT = Failure(ModelUnavailable, "timeout", "sdk", "{address} did not answer in time", f"Try again, or {_OTHER}")
RATE_LIMITED = Failure(
    ModelUnavailable,
    "rate_limited",
    "sdk",
    "{address} takes no more requests for now: {said}",
    f"Wait and resume the run, or {_OTHER}",
)
FAILING = Failure(ModelUnavailable, "server_error", "sdk", "{address} failed: {said}", f"Try again later, or {_OTHER}")
BROKEN_STREAM = Failure(
    ModelUnavailable,
    "server_error",
    "ours",
    "{address} broke off its reply: {said}",
    f"Try again, or {_OTHER}",
)
BAD_REPLY = Failure(
    ModelUnavailable,
    "bad_reply",
    "ours",
    "{address} sent something that is no chat completion: {said}",
    "Check that --base-url is the address of an OpenAI-compatible API; it often ends in /v1",
)
CLOSED_LOOP = Failure(
    ModelUnavailable,
    "closed_loop",
    "ours",
    "The model's connections belong to an event loop that has ended",
    "Build the model anew with `connect`",
)
WRONG_KEY = Failure(
    ModelAccessDenied,
    "wrong_key",
    "never",
    "{address} does not accept the key",
    "Set OPENAI_API_KEY (ACTLOOP_API_KEY for the server of --base-url) to a valid key, or change --base-url",
)
FORBIDDEN = Failure(
    ModelAccessDenied,
    "forbidden",
    "never",
    "{address} gives this key no right to {name}: {said}",
    "Use another key in OPENAI_API_KEY, or another --model or --base-url",
)
NO_CREDIT = Failure(
    ModelAccessDenied,
    "insufficient_quota",
    "never",
    "{address} says that the account has no credit left: {said}",
    "Check its plan and billing, or use another key in OPENAI_API_KEY, another --model or --base-url",
)
NOT_FOUND = Failure(
    ModelRequestRefused,
    "model_not_found",
    "never",
    "{address} knows no model {name}: {said}",
    "List its models with `curl {address}/models` and name one with --model; --base-url often ends in /v1",
)
BAD_REQUEST = Failure(
    ModelRequestRefused,
    "bad_request",
    "never",
    "{address} refuses the request to {name}: {said}",
    f"Change what it names, or {_OTHER}",
)
FILTERED = Failure(
    ModelRequestRefused,
    "content_filter",
    "never",
    "The content filter of {address} refuses the conversation: {said}",
    f"Word the task differently, or {_OTHER}",
)
TOO_LONG = Failure(
    ModelRequestRefused,
    "context_length_exceeded",
    "never",
    "The conversation is longer than {name} can read: {said}",
    "Start a new thread, or choose a model with a larger context with --model",
)
CUT = Failure(
    ModelRequestRefused,
    "length",
    "never",
    "The reply of {name} was cut off before its structure was complete",
    "Allow longer replies, or ask for a shorter answer",
)
UNKNOWN = Failure(
    ModelError, "unknown", "never", "The call of {name} failed: {said}", f"Read the cause below, or {_OTHER}"
)

BY_STATUS = {
    400: BAD_REQUEST,
    401: WRONG_KEY,
    402: NO_CREDIT,
    403: FORBIDDEN,
    404: NOT_FOUND,
    408: FAILING,
    409: FAILING,
    413: TOO_LONG,
    429: RATE_LIMITED,
}
"""Other statuses from 500 are `FAILING`, all others `BAD_REQUEST`."""

BY_NAME = {
    "openai.OpenAIError": WRONG_KEY,
    "openai.SubjectTokenProviderError": WRONG_KEY,
    "openai.APIError": BROKEN_STREAM,
    "openai.APIResponseValidationError": BAD_REPLY,
    "openai.APIStatusError": BAD_REQUEST,
    "openai.APIConnectionError": UNREACHABLE,
    "openai.APITimeoutError": TIMEOUT,
    "openai.BadRequestError": BAD_REQUEST,
    "openai.AuthenticationError": WRONG_KEY,
    "openai.OAuthError": WRONG_KEY,
    "openai.PermissionDeniedError": FORBIDDEN,
    "openai.NotFoundError": NOT_FOUND,
    "openai.ConflictError": FAILING,
    "openai.UnprocessableEntityError": BAD_REQUEST,
    "openai.RateLimitError": RATE_LIMITED,
    "openai.InternalServerError": FAILING,
    "openai.LengthFinishReasonError": CUT,
    "openai.ContentFilterFinishReasonError": FILTERED,
    "openai.InvalidWebhookSignatureError": UNKNOWN,
    "openai.WebSocketConnectionClosedError": BROKEN_STREAM,
    "openai.WebSocketQueueFullError": BROKEN_STREAM,
    "langchain_core.ContextOverflowError": TOO_LONG,
    "langchain_core.ModelAPIError": FAILING,
    "langchain_core.ModelAuthenticationError": WRONG_KEY,
    "langchain_core.ModelConnectionError": UNREACHABLE,
    "langchain_core.ModelError": UNKNOWN,
    "langchain_core.ModelInvalidRequestError": BAD_REQUEST,
    "langchain_core.ModelNotFoundError": NOT_FOUND,
    "langchain_core.ModelPermissionDeniedError": FORBIDDEN,
    "langchain_core.ModelRateLimitError": RATE_LIMITED,
    "langchain_core.ModelRefusalError": FILTERED,
    "langchain_core.ModelTimeoutError": TIMEOUT,
    "httpx.TimeoutException": TIMEOUT,
    "httpx.RequestError": UNREACHABLE,
    "httpx2.TimeoutException": TIMEOUT,
    "httpx2.RequestError": UNREACHABLE,
    "builtins.TimeoutError": TIMEOUT,
    "builtins.ConnectionError": UNREACHABLE,
    "socket.gaierror": UNREACHABLE,
    "ssl.SSLError": UNREACHABLE,
    "json.JSONDecodeError": BAD_REPLY,
    "actloop.BadReply": BAD_REPLY,
}
"""Package and name of an exception class, and what it means where nothing else tells more."""

BARE = frozenset({"openai.OpenAIError", "openai.APIError"})
"""Rows that hold for the class itself and not for those below it.

OpenAI's SDK raises the first bare for missing credentials, and the second for an error event within a stream.
"""

BY_WORDS = (
    (re.compile(r"content.?filter|content.?policy|content management policy|invalid_prompt", re.I), FILTERED),
    (
        re.compile(
            r"context.?length|context.?window|maximum context|exceed_context_size|prompt is too long"
            r"|exceeds? the available context|input tokens exceed",
            re.I,
        ),
        TOO_LONG,
    ),
    (re.compile(r"insufficient_quota|exceeded your current quota|billing_hard_limit", re.I), NO_CREDIT),
)
"""What an error says of itself, and what that means whatever its status and class."""
