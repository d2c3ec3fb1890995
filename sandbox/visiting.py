"""Speaking to a box in passing, over a stream of one's own, without a session."""

import threading
import uuid
from concurrent.futures import Future

from .box_wire import LineReader, Message, encode_line
from .link import Link
from .owner import this_process


def facts_of(link: Link, timeout: float) -> Message | None:
    """Ask a box how it is, without taking hold of it.

    Args:
        link: a stream to the box; closed afterwards.
        timeout: seconds to wait.

    Returns:
        `holder`, `thread`, `title`, `idle_s`, `silent_s`, `ttl_s`, `running`, `waits`; None where it does not answer.
    """
    return _ask(link, {"op": "who"}, "who", timeout)


def take_hold(link: Link, take: bool, timeout: float) -> Message | None:
    """Ask a box to obey this process, and no other from now on.

    Args:
        link: a stream to the box; closed afterwards.
        take: its holder is known to have ended.
        timeout: seconds to wait.

    Returns:
        `ok`, which says whether it does, and `holder`; None where it does not answer.
    """
    return _ask(link, {"op": "hello", "who": this_process().model_dump(), "take": take}, "hello", timeout)


def _ask(link: Link, question: Message, event: str, timeout: float) -> Message | None:
    token = uuid.uuid4().hex[:12]
    answer: Future[Message | None] = Future()

    def read() -> None:
        lines = LineReader()
        for data in link.receive():
            for message in lines.feed(data):
                if message.get("ev") == event and message.get("by") == token and not answer.done():
                    answer.set_result(message)
        if not answer.done():
            answer.set_result(None)

    reader = threading.Thread(target=read, name="actloop visit", daemon=True)
    reader.start()
    try:
        # A line end first: whatever another process has left half-written ends here.
        link.send(b"\n" + encode_line({**question, "by": token}))
        return answer.result(timeout)
    except (OSError, TimeoutError):
        return None
    finally:
        link.close()
        reader.join(1)
