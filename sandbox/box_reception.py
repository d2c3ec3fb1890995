"""Who comes to the box, who may give orders, and what the box says of itself. Runs inside the box, in the supervisor.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

from .box_host import Host
from .box_interpreters import Interpreters
from .box_journal import Journal
from .box_lease import Lease
from .box_wire import Message


class Reception:
    """The door of the box.

    Args:
        host: gets the answers.
        lease: who holds the box.
        interpreters: whose worker must be ready before anybody is welcome.
        journal: of cells.
    """

    def __init__(self, host: Host, lease: Lease, interpreters: Interpreters, journal: Journal) -> None:
        self._host = host
        self._lease = lease
        self._interpreters = interpreters
        self._journal = journal
        self._waiting: list[Message] = []
        self._python = ""

    def admits(self, message: Message) -> bool:
        """Answer whoever greets, asks or may not speak; whether the message is an order of the holder's."""
        op = message.get("op")
        if op == "hello":
            self._on_hello(message)
        elif op == "who":
            self._host.send({"ev": "who", "by": message.get("by"), **self._about()})
        elif not self._lease.admits(message):
            self._host.send({"ev": "ousted", "by": message.get("by"), "holder": self._lease.holder})
        else:
            self._lease.heard(work=op != "beat")
            if op == "bye":
                self._lease.let_go()
            return op not in ("beat", "bye")
        return False

    def on_ready(self, python: str) -> None:
        """The worker is ready; its version of Python is this."""
        self._python = python
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._on_hello(message)

    def _on_hello(self, message: Message) -> None:
        worker = self._interpreters.worker
        if worker is None or not worker.ready:
            self._waiting.append(message)
            return
        ok = self._lease.take(message)
        about = {**self._about(), "cells": self._journal.ids} if ok else self._about()
        self._host.send({"ev": "hello", "by": message.get("by"), "ok": ok, **about})

    def _about(self) -> Message:
        worker, cell = self._interpreters.worker, self._journal.cell
        return {
            "python": self._python,
            "thread": self._lease.thread,
            "title": self._lease.title,
            "holder": self._lease.holder,
            "silent_s": self._lease.silent_s,
            "idle_s": self._lease.idle_s,
            "ttl_s": self._lease.ttl_s,
            "point": self._journal.point,
            "running": cell.id if cell is not None else None,
            "waits": self._journal.calls.pending,
            "names": worker.names if worker is not None else [],
        }
