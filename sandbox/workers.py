"""Threads and an event loop in which a session makes the calls of its cells.

The threads are daemons, unlike those of `concurrent.futures`: a function that never returns must not keep the program
from ending.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any

MAX_THREADS = 32
IDLE_S = 20.0
"""Seconds after which a thread that has nothing to do ends."""


class Workers:
    """Runs functions in at most so many threads, and coroutines on one event loop; both start when they are needed.

    Args:
        name: of the threads.
        most: threads.
    """

    def __init__(self, name: str, most: int = MAX_THREADS) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, call: Callable[[], None]) -> None:
        """Have a function run in a thread, at once or when one is free; what it raises is its own affair."""
        with self._lock:
            if self._closed:
                return
            self._busy += 1
            self._queue.put(call)
            if self._busy <= self._threads or self._threads >= self._most:
                return
            self._threads += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                call = self._queue.get(timeout=IDLE_S)
            except queue.Empty:
                call = None
            with self._lock:
                if call is None and (self._closed or self._queue.empty()):
                    self._threads -= 1
                    return
            if call is not None:
                try:
                    call()
                finally:
                    with self._lock:
                        self._busy -= 1

    def spawn(self, make: Callable[[], Coroutine[Any, Any, None]], context: contextvars.Context, group: str) -> None:
        """Have a coroutine run on the event loop, in a context, as one of a group."""
        with self._lock:
            if self._closed:
                return
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_turn, args=(self._loop,), name=f"{self._name} loop", daemon=True).start()
            self._loop.call_soon_threadsafe(_spawn, self._loop, make, context, group)

    def cancel(self, group: str) -> None:
        """Cancel the coroutines of a group."""
        with self._lock:
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(_cancel, self._loop, group)

    def close(self) -> None:
        """End the threads that have nothing to do and the event loop; safe to repeat."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._threads):
                self._queue.put(None)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)


_tasks: set[asyncio.Task[None]] = set()
"""The loop itself holds its tasks weakly."""


def _spawn(
    loop: asyncio.AbstractEventLoop,
    make: Callable[[], Coroutine[Any, Any, None]],
    context: contextvars.Context,
    group: str,
) -> None:
    task = loop.create_task(make(), name=group, context=context)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _cancel(loop: asyncio.AbstractEventLoop, group: str) -> None:
    for task in asyncio.all_tasks(loop):
        if group in ("", task.get_name()):
            task.cancel()


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        _cancel(loop, "")
        loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop), return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
