# SPDX-License-Identifier: MIT
"""Each message against the protocol's own JSON schema, where that is at hand; else its form alone."""

import json
import os

PLACES = [os.environ.get("TRAPLINE_DAP_SCHEMA"), os.path.expanduser("~/.cache/trapline/debugAdapterProtocol.json")]


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


def schema_path():
    for path in PLACES:
        if path and os.path.exists(path):
            return path
    return None


class Schema:
    """why_not: what is missing; None: the schema is used."""

    def __init__(self):
        self.checked = 0
        self.why_not = None
        self.cache = {}
        path = schema_path()
        try:
            import jsonschema

            self.library = jsonschema
        except ImportError:
            self.why_not = "python3-jsonschema"
            return
        if not path:
            self.why_not = "the protocol's schema: TRAPLINE_DAP_SCHEMA=debugAdapterProtocol.json"
            return
        with open(path, encoding="utf-8") as f:
            self.schema = json.load(f)

    def definition(self, message):
        names = self.schema["definitions"]
        if message["type"] == "event":
            name = message["event"][0].upper() + message["event"][1:] + "Event"
        elif not message["success"]:
            name = "ErrorResponse"
        else:
            name = message["command"][0].upper() + message["command"][1:] + "Response"
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
