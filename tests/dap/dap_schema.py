# SPDX-License-Identifier: MIT
"""
Each message against the protocol's own JSON schema, where that is at hand; else its form alone. It is at hand as
scripts/npm-packages makes it of the protocol's declarations, or as the protocol's repository has it.
"""

import json
import os


def form(message):
    """What each message has."""
    assert isinstance(message["seq"], int) and message["seq"] > 0, message
    assert message["type"] in ("event", "response"), message
    if message["type"] == "event":
        assert isinstance(message["event"], str), message
        assert message["event"] != "stopped", message
    else:
        assert isinstance(message["request_seq"], int), message
        assert isinstance(message["command"], str), message
        assert isinstance(message["success"], bool), message
        assert message["success"] or message["message"], message


class Schema:
    """why_not: what is missing; None: the schema is used."""

    def __init__(self, path):
        path = os.environ.get("TRAPLINE_DAP_SCHEMA") or path
        self.checked = 0
        self.why_not = None
        self.cache = {}
        try:
            import jsonschema

            self.library = jsonschema
        except ImportError:
            self.why_not = "python3-jsonschema"
            return
        if not os.path.exists(path):
            self.why_not = "the protocol's schema: scripts/install-deps test, with npm"
            return
        with open(path, encoding="utf-8") as f:
            self.schema = json.load(f)
        # Made of declarations, the names have the module before them.
        self.prefix = "DebugProtocol." if "DebugProtocol.Event" in self.schema["definitions"] else ""

    def definition(self, message):
        names = self.schema["definitions"]
        if message["type"] == "event":
            # An adapter may have events of its own, which clients pass over.
            is_own = message["event"].startswith("trapline")
            name = "Event" if is_own else message["event"][0].upper() + message["event"][1:] + "Event"
        elif not message["success"]:
            name = "ErrorResponse"
        else:
            name = message["command"][0].upper() + message["command"][1:] + "Response"
        name = self.prefix + name
        assert name in names, f"the protocol has no {name}"
        return name

    def __call__(self, message):
        message = {k: v for k, v in message.items() if k != "received"}
        form(message)
        if self.why_not:
            return
        name = self.definition(message)
        if name not in self.cache:
            self.cache[name] = self.library.Draft4Validator(
                {"$ref": f"#/definitions/{name}", "definitions": self.schema["definitions"]}
            )
        self.cache[name].validate(message)
        self.checked += 1
