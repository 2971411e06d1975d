"""A Python file as statements: what each imports and mentions, and a digest of what it says.

PURE. The digest does not depend on comments, docstrings, white space, or the version of Python that parses the file.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_LAYOUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_PACKAGE, _DECORATOR = "freshline", "asset"
_BUILTINS = frozenset({"__import__", "exec", "eval", "compile"})
_LOADERS = frozenset(
    {
        "SourceFileLoader",
        "addPyFile",
        "getsource",
        "getsourcelines",
        "import_module",
        "iter_modules",
        "module_from_spec",
        "run_module",
        "run_path",
        "spec_from_file_location",
        "walk_packages",
    }
)
_SYSTEM = frozenset({"meta_path", "modules", "path", "path_hooks"})


@dataclass(frozen=True, slots=True)
class Unknown:
    """A place where the text does not say what is imported. `file` is empty if it is none of the project's."""

    file: str
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Import:
    """An import. `level`: the leading dots. `names`: what is taken from the module, which may be modules too."""

    module: tuple[str, ...]
    names: tuple[str, ...] = ()
    level: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a module. `asset`: the name of the function, if it only declares an asset."""

    digest: str
    imports: tuple[Import, ...] = ()
    names: frozenset[str] = frozenset()
    asset: str | None = None
    unknown: Unknown | None = None


@dataclass(frozen=True, slots=True)
class PythonModule:
    """The statements of a file in their order."""

    statements: tuple[Statement, ...] = field(default=())

    @classmethod
    def parse(cls, path: str, content: bytes) -> PythonModule:
        """Parse a file. One that cannot be parsed is one statement of which nothing is known."""
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 1
            unknown = Unknown(path, line, "it cannot be parsed")
            return cls((Statement(hashlib.sha256(content).hexdigest(), unknown=unknown),))
        reader = _Reader(path, tree)
        return cls(tuple(reader.statement(node) for node in reader.body))

    def digest(self) -> str:
        """Return a hash of the whole file."""
        return hashlib.sha256("".join(one.digest for one in self.statements).encode()).hexdigest()


class _Reader:
    """Reads the statements of one file."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self._path = path
        nodes = list(ast.walk(tree))
        if not any(_identifier(node) == "__doc__" for node in nodes):
            for node in nodes:
                _remove_docstring(node)
        self.body = tree.body
        self._decorators, self._packages = _freshline_names(nodes)

    def statement(self, node: ast.stmt) -> Statement:
        """Return what counts of a statement. The decorator of an asset is part of the definition."""
        asset = None
        if isinstance(node, Function):
            others = [one for one in node.decorator_list if not self._declares(one)]
            asset = node.name if len(others) < len(node.decorator_list) and not others else None
            node.decorator_list = others
        inside = list(_executed(node))
        return Statement(
            digest=hashlib.sha256("\0".join(_tokens(node)).encode("utf-8", "surrogatepass")).hexdigest(),
            imports=tuple(one for part in inside for one in _imports(part)),
            names=frozenset(name for part in inside for name in _mentioned(part)),
            asset=asset,
            unknown=next((self._unknown(part, what) for part in inside if (what := _hides(part))), None),
        )

    def _declares(self, decorator: ast.expr) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Name):
            return called.id in self._decorators
        if not isinstance(called, ast.Attribute) or called.attr != _DECORATOR:
            return False
        return isinstance(called.value, ast.Name) and called.value.id in self._packages

    def _unknown(self, node: ast.AST, what: str) -> Unknown:
        return Unknown(self._path, getattr(node, "lineno", 1), what)


def _freshline_names(nodes: list[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names under which a file knows `asset`, and the package."""
    decorators, packages = set(), set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == _PACKAGE and not node.level:
            decorators |= {one.asname or one.name for one in node.names if one.name == _DECORATOR}
        elif isinstance(node, ast.Import):
            packages |= {one.asname or one.name for one in node.names if one.name == _PACKAGE}
    return decorators, packages


def _remove_docstring(node: ast.AST) -> None:
    if isinstance(node, _DOCUMENTED) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            # An empty body is not a body.
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, without what only type checkers read."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, ast.If) and _identifier(one.test) == "TYPE_CHECKING":
            stack.extend(one.orelse)
        else:
            stack.extend(ast.iter_child_nodes(one))


def _identifier(node: ast.AST) -> str | None:
    """Return the name, or the attribute, that a node mentions."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _mentioned(node: ast.AST) -> Iterator[str]:
    """Yield the names by which a node may mean a function: as a name, an attribute, an import or a text."""
    name = _identifier(node)
    if name is not None:
        yield name
    elif isinstance(node, ast.ImportFrom):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        yield node.value


def _imports(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for one in node.names:
            yield Import(tuple(one.name.split(".")))
    elif isinstance(node, ast.ImportFrom):
        module = tuple(node.module.split(".")) if node.module else ()
        yield Import(module, tuple(one.name for one in node.names), node.level)


def _hides(node: ast.AST) -> str | None:
    """Return why a node may import what the text does not name; None if it does not."""
    if isinstance(node, ast.Name) and node.id in _BUILTINS:
        return f"it uses {node.id}"
    if isinstance(node, ast.Attribute):
        if node.attr in _LOADERS:
            return f"it uses {node.attr}"
        if node.attr in _SYSTEM and isinstance(node.value, ast.Name) and node.value.id == "sys":
            return f"it uses sys.{node.attr}"
    if isinstance(node, ast.ImportFrom) and not node.level:
        hidden = _SYSTEM if node.module == "sys" else _LOADERS
        taken = next((one.name for one in node.names if one.name in hidden), None)
        return f"it uses {taken}" if taken else None
    return None


def _tokens(root: ast.AST) -> Iterator[str]:
    """Yield a text of a syntax tree, without empty fields: other versions of Python have more of them."""
    stack: list[object] = [root]
    while stack:
        one = stack.pop()
        if isinstance(one, _Token):
            yield one
        elif isinstance(one, ast.AST):
            yield f"({type(one).__name__}"
            stack.append(_Token(")"))
            for name in reversed(one._fields):
                value = getattr(one, name, None)
                if name not in _LAYOUT and value is not None and value != []:
                    stack += [value, _Token(f".{name}")]
        elif isinstance(one, list):
            stack += [_Token("]"), *reversed(one)]
            yield "["
        else:
            yield repr(one)


class _Token(str):
    """A text that stands for itself."""

    __slots__ = ()
