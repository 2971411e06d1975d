"""JSON pointers (RFC 6901): the value at a place of a document."""

from __future__ import annotations

import re
from typing import Any

from freshline.watching.look import LookError

INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def value_at(document: Any, pointer: str) -> Any:
    """Return the value. Raise `LookError` if there is none; the error shows the pointer and not the document."""
    found = document
    for number, token in enumerate(pointer.split("/")[1:], 1):
        name = token.replace("~1", "/").replace("~0", "~")
        place = "/".join(pointer.split("/")[: number + 1])
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            raise LookError(f"the JSON document has no value at {pointer!r}: {place!r} leads nowhere")
    return found
