# SPDX-License-Identifier: MIT
"""A client of the Debug Adapter Protocol, for tests: it keeps each message, and checks its form."""

import json
import os
import select
import socket
import subprocess
import time

PATIENCE = 60.0  # seconds, on a machine that does much else


class Gone(Exception):
    """The adapter has closed its side, or did not answer."""


class Client:
    def __init__(self, command=None, port=None, env=None, check=None):
        self.buffer = b""
        self.seq = 0
        self.messages = []
        self.check = check
        self.process = None
        self.socket = None
        if port:
            self.socket = socket.create_connection(("127.0.0.1", port))
            self.input = self.output = self.socket.fileno()
        else:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
            )
            self.input = self.process.stdin.fileno()
            self.output = self.process.stdout.fileno()

    def write(self, data):
        while data:
            data = data[os.write(self.input, data) :]

    def send(self, command, arguments=None):
        self.seq += 1
        message = {"seq": self.seq, "type": "request", "command": command}
        if arguments is not None:
            message["arguments"] = arguments
        text = json.dumps(message).encode()
        self.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
        return self.seq

    def read(self, deadline):
        """One message; None: the time is over."""
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if found:
                length = int(head.split(b":")[1])
                if len(rest) >= length:
                    self.buffer = rest[length:]
                    message = json.loads(rest[:length])
                    message["received"] = time.monotonic()
                    self.messages.append(message)
                    if self.check:
                        self.check(message)
                    return message
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.output], [], [], left)[0]:
                return None
            data = os.read(self.output, 1 << 16)
            if not data:
                raise Gone("the adapter has closed its side")
            self.buffer += data

    def until(self, fits, seconds=PATIENCE):
        """The first message that fits, of those kept and those to come."""
        for message in self.messages:
            if fits(message):
                return message
        deadline = time.monotonic() + seconds
        while True:
            message = self.read(deadline)
            if message is None:
                raise Gone("no such message came")
            if fits(message):
                return message

    def request(self, command, arguments=None, seconds=PATIENCE):
        seq = self.send(command, arguments)
        return self.until(lambda m: m["type"] == "response" and m["request_seq"] == seq, seconds)

    def event(self, name, seconds=PATIENCE):
        return self.until(lambda m: m["type"] == "event" and m["event"] == name, seconds)

    def events(self, name):
        return [m for m in self.messages if m["type"] == "event" and m["event"] == name]

    def listen(self, seconds):
        deadline = time.monotonic() + seconds
        while self.read(deadline) is not None:
            pass

    def lines(self, category=None):
        """The output so far, with where each line leads to."""
        return [
            m["body"]
            for m in self.events("output")
            if category is None or m["body"].get("category") == category
        ]

    def line(self, text, seconds=PATIENCE):
        """The first line of output with the text."""
        return self.until(
            lambda m: m["type"] == "event" and m["event"] == "output" and text in m["body"]["output"],
            seconds,
        )["body"]

    def begin(self):
        return self.request(
            "initialize",
            {"adapterID": "trapline", "clientID": "test", "linesStartAt1": True, "pathFormat": "path"},
        )

    def attach(self, pid, **more):
        self.begin()
        answer = self.request("attach", {"pid": pid, **more})
        if answer["success"]:
            self.event("initialized")
        return answer

    def set_lines(self, path, rows):
        return self.request("setBreakpoints", {"source": {"path": path}, "breakpoints": rows})

    def set_functions(self, rows):
        return self.request("setFunctionBreakpoints", {"breakpoints": rows})

    def close(self):
        """Goes without a word."""
        if self.socket:
            self.socket.close()
        else:
            self.process.stdin.close()
            self.process.stdout.close()

    def end(self, seconds=PATIENCE):
        """The exit status of the adapter."""
        return self.process.wait(seconds)
