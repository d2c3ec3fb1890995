"""A chat model that follows a script: for tests, examples and the demo, without network or chance."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, SkipValidation

Reply: TypeAlias = str | AIMessage | Exception
"""What the model says: a text, a message with tool calls and metadata, or an error that it raises."""

Script: TypeAlias = Sequence[Reply] | Callable[[list[BaseMessage]], Reply]
"""Replies in order, or a function of the prompt."""


class ScriptExhausted(AssertionError):
    """The model was asked once more than the script has replies."""


class ScriptedModel(BaseChatModel):
    r"""A chat model whose reply is a pure function of the prompt.

    With a list, the reply's place is the number of AI messages in the prompt. So the same prompt always gets
    the same reply: in another process, after a resume, on a fork, and on any number of threads at once. A
    long thread goes on in the list where its last run ended. Where a prompt drops earlier replies, give a
    function instead.

    It streams word by word, calls tools, counts words as tokens, and keeps what it was asked.

    Example:
        ```python
        model = ScriptedModel(["```python\nprint(6 * 7)\n```", "The answer is 42."])
        agent = create_agent(model)
        agent.invoke({"task": "What is six times seven?"})["answer"]   # 'The answer is 42.'
        len(model.requests)                                             # 2

        ScriptedModel(lambda messages: f"I was told {len(messages)} messages.")
        ScriptedModel([TimeoutError("no answer"), "never reached: the same prompt fails again"])
        ```
    """

    replies: SkipValidation[Script]
    """The script."""
    delay_s: float = Field(default=0.0, ge=0)
    """Seconds that each character takes, for demos."""
    name_of_model: str = "scripted"
    """Name in the metadata of replies."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _tools: list[list[dict[str, Any]]] = PrivateAttr(default_factory=list)

    def __init__(self, replies: Script, **fields: Any):
        """Make a model from its script.

        Args:
            replies: replies in order, or a function of the prompt that returns one.
            fields: `delay_s`, `name_of_model`, and the fields of every chat model.

        Raises:
            TypeError: the script is a single text or message.
        """
        if isinstance(replies, str | BaseMessage | BaseException):
            raise TypeError(f"The script is one {type(replies).__name__}. Give a list of replies, or a function.")
        # A script counts the replies in the prompt: none must be left out, however long the thread.
        fields.setdefault("profile", {"max_input_tokens": 1 << 40})
        fields["replies"] = replies if callable(replies) else tuple(replies)
        super().__init__(**fields)

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """The prompts so far, oldest first; safe to read while other threads ask."""
        return list(self._requests)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that were bound last, as JSON schemas in OpenAI's form."""
        return self._tools[-1] if self._tools else []

    @property
    def model_name(self) -> str:
        """The name by which tracing and prices know the model."""
        return self.name_of_model

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Note the tools and return a model that says the same as before."""
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        self._tools.append(schemas)
        choice = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=schemas, **choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._answer(messages)
        time.sleep(self.delay_s * len(reply.text))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for message in _pieces(self._answer(messages)):
            chunk = ChatGenerationChunk(message=message)
            time.sleep(self.delay_s * len(chunk.text))
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        """Look up the reply, and complete a copy of it as a provider would."""
        self._requests.append(list(messages))
        reply = self._scripted(messages)
        if isinstance(reply, BaseException):
            raise reply
        message = AIMessage(reply) if isinstance(reply, str) else reply.model_copy(deep=True)
        called = message.tool_calls or message.invalid_tool_calls
        metadata = {"finish_reason": "tool_calls" if called else "stop", "model_name": self.name_of_model}
        message.response_metadata = metadata | message.response_metadata
        if message.usage_metadata is None:
            message.usage_metadata = _usage(messages, message)
        return message

    def _scripted(self, messages: list[BaseMessage]) -> Reply:
        if callable(self.replies):
            return self.replies(messages)
        place = sum(isinstance(message, AIMessage) for message in messages)
        if place < len(self.replies):
            return self.replies[place]
        raise ScriptExhausted(
            f"The script has {len(self.replies)} replies, and the model was asked for reply {place + 1}. "
            f"The last message it was sent: {messages[-1].text[:300] if messages else '(none)'!r}"
        )


def _usage(messages: Sequence[BaseMessage], reply: AIMessage) -> UsageMetadata:
    """Words as tokens: made up, but the same each time."""
    asked = sum(len(message.text.split()) for message in messages)
    calls = [*(json.dumps(call["args"]) for call in reply.tool_calls)]
    calls += [call["args"] or "" for call in reply.invalid_tool_calls]
    said = sum(len(text.split()) for text in [reply.text, *calls])
    return UsageMetadata(input_tokens=asked, output_tokens=said, total_tokens=asked + said)


def _pieces(reply: AIMessage) -> Iterator[AIMessageChunk]:
    """The reply as a provider streams it: words, then tool calls, then an empty piece with the metadata."""
    if isinstance(reply.content, str):
        for word in _words(reply.content):
            yield AIMessageChunk(content=word, id=reply.id)
    elif reply.content:
        yield AIMessageChunk(content=reply.content, id=reply.id)
    calls = [(call["id"], call["name"], json.dumps(call["args"])) for call in reply.tool_calls]
    calls += [(call["id"], call["name"] or "", call["args"] or "") for call in reply.invalid_tool_calls]
    for index, (call_id, name, args) in enumerate(calls):
        heads = [(call_id, name, "")]
        for head_id, head_name, text in [*heads, *((None, None, word) for word in _words(args))]:
            piece = ToolCallChunk(name=head_name, args=text, id=head_id, index=index, type="tool_call_chunk")
            yield AIMessageChunk(content="", tool_call_chunks=[piece], id=reply.id)
    yield AIMessageChunk(
        content="",
        id=reply.id,
        additional_kwargs=reply.additional_kwargs,
        response_metadata=reply.response_metadata,
        usage_metadata=reply.usage_metadata,
        chunk_position="last",
    )


def _words(text: str) -> list[str]:
    """Pieces of a text, each a word with the space behind it; together they are the text."""
    return re.findall(r"\S+\s*|\s+", text)
