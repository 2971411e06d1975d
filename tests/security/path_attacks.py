"""Paths that an attacker reports, generated from what lies outside of the allowed directory and ways to name it."""

from __future__ import annotations

from collections.abc import Iterator

OUTSIDE = ("/etc/passwd", "/proc/self/environ", "/project/.env", "/project/data-other/x.csv", "/", "/project")
SCHEMES = ("hdfs", "s3", "s3a", "gs", "abfss", "http", "https", "ftp", "jar", "jdbc", "webhdfs", "viewfs", "har", "c")


def attacks(inside: str) -> Iterator[object]:
    """Yield paths that lead out of the directory `inside`, or that are no paths."""
    yield from OUTSIDE
    for path in OUTSIDE:
        yield from _spelled(path)
        yield from _climbing(inside, path)
    for scheme in SCHEMES:
        yield from (f"{scheme}://host/x", f"{scheme}:{inside}/x", f"{scheme.upper()}://{inside}/x", f"{scheme}:x")
    yield from _odd(inside)
    yield from (7, True, ["a"], {"a": 1}, 1.5, 0, False, [], {})


def _spelled(path: str) -> Iterator[str]:
    """Yield other spellings of an absolute path."""
    yield from (f"/{path}", f"//{path}", f"file:{path}", f"file://{path}", f"FILE://{path}", f"fIlE:{path}")
    yield from (f"file://localhost{path}", f"file://host{path}", f"file:///.{path}", f"/.{path}", f"{path}/.")
    yield from (f" {path}", f"{path}\n", f"{path}\x00.csv", f"\t{path}", path.replace("/", "\\"), f"C:{path}")
    yield from (path.replace("/", "%2f"), path.replace("/", "%2F"), path.replace("/", "%252f"), f"\\\\host{path}")


def _climbing(inside: str, path: str) -> Iterator[str]:
    """Yield paths that begin in the directory and leave it."""
    up = "../" * (inside.count("/") + 3)
    for dots in ("..", "%2e%2e", "%2E%2e", ".%2e", "..%00", "%252e%252e", "..\\", "{..}", "{.,.}.", "{x,../..}"):
        climb = up.replace("..", dots)
        yield f"{inside}/{climb}{path.lstrip('/')}"
    yield from (
        f"{inside}/{{x,{up}{path[1:]}}}",
        f"{inside}/./.././{path[1:]}",
        f"{inside}//..//..{path}",
        f"{up}{path[1:]}",
    )
    yield from (
        f"file:{inside}/../..{path}",
        f"file://{inside}/{up}{path[1:]}",
        f"{inside}/x/{up}{path[1:]}",
        f"{inside}/..",
    )


def _odd(inside: str) -> Iterator[str]:
    """Yield what only looks like the directory, patterns that match more than it, and what is too long."""
    yield from (
        f"{inside}x",
        f"{inside}-other/x.csv",
        f"{inside}.csv",
        inside.upper(),
        f"{inside[:-1]}?",
        f"{inside[:-1]}*",
    )
    yield from (
        f"{inside[:-1]}[a-z]/x",
        inside.replace("/", "/*", 1),
        "/*/*/*",
        "*",
        "../*",
        "[.][.]/x",
        "{,/etc/passwd}",
    )
    yield from (
        "a" * 5_000,
        f"{inside}/{'x/' * 4_000}",
        f"{inside}/{'é' * 2_100}",
        "..",
        ".",
        "../",
        "./..",
        "...",
        "x/../..",
    )
    yield from (
        f"{inside}/x\x01",
        f"{inside}/\x7fx",
        f"{inside}/\u202ex",
        f"{inside}/x ",
        f"{inside}/a\rb",
        f"{inside}/\ud800",
    )
    yield from (
        "~/.ssh/id_rsa",
        "$HOME/x",
        "data.csv",
        "\uff0fetc\uff0fpasswd",
        "\uff0e\uff0e/x",
        "-",
        ":",
        "://",
        "a:b",
        "file:",
        "file:x",
        "//",
    )
