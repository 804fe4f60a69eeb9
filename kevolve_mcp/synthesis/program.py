"""A task's text as a program: the parts of its Model, read with `ast` and never executed."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field


class NotReadable(ValueError):
    """A text that cannot be used; the message says what was found and what is supported."""


@dataclass(frozen=True)
class Submodule:
    """`self.act = nn.GELU(approximate="tanh")`: kind "GELU", the call as written."""

    kind: str
    call: ast.Call


@dataclass(frozen=True)
class Program:
    """A parsed task. arguments: the names of forward's inputs. init: the constructor, None for a
    task that defines `reference`.

    scalars: number-valued attributes ("self.eps") with their value where it is a literal or a
    constructor default, else None. imports, constants: the statements of the module that the
    constructor may need.
    """

    arguments: tuple[str, ...]
    forward: ast.FunctionDef
    init: ast.FunctionDef | None = None
    imports: tuple[str, ...] = ()
    constants: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, float | None] = field(default_factory=dict)
    submodules: dict[str, Submodule] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, source: str) -> Program:
        """Parse a task's text. Raises NotReadable."""
        try:
            module = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise NotReadable(f"the task is not valid Python: {error}") from error
        imports = tuple(
            ast.unparse(s)
            for s in module.body
            if isinstance(s, (ast.Import, ast.ImportFrom))
            and not (isinstance(s, ast.ImportFrom) and s.module == "__future__")
        )
        constants = {
            target.id: ast.unparse(s)
            for s in module.body
            if isinstance(s, ast.Assign) and _is_literal(s.value)
            for target in s.targets
            if isinstance(target, ast.Name)
        }
        model = next(
            (s for s in module.body if isinstance(s, ast.ClassDef) and s.name == "Model"), None
        )
        if model is None:
            function = next(
                (
                    s
                    for s in module.body
                    if isinstance(s, ast.FunctionDef) and s.name == "reference"
                ),
                None,
            )
            if function is None:
                raise NotReadable("the task defines neither class Model nor reference(*inputs)")
            names, defaults = _arguments(function, skip=0)
            return cls(names, function, None, imports, constants, defaults=defaults)
        methods = {s.name: s for s in model.body if isinstance(s, ast.FunctionDef)}
        if "forward" not in methods:
            raise NotReadable("class Model has no forward method of its own")
        names, defaults = _arguments(methods["forward"], skip=1)
        init = methods.get("__init__")
        scalars, submodules = _attributes(init, constants) if init else ({}, {})
        return cls(
            names, methods["forward"], init, imports, constants, scalars, submodules, defaults
        )

    def wrapped(self, call: str) -> str:
        """Return the text of class ModelNew (or `kernel`) with the reference's own constructor and
        a forward that returns `call`.

        Raises NotReadable when the constructor needs more of the module than imports and literal
        constants."""
        listed = ", ".join(
            f"{a}={self.defaults[a]}" if a in self.defaults else a for a in self.arguments
        )
        if self.init is None:
            if not isinstance(self.forward, ast.FunctionDef) or self.forward.name != "reference":
                return (
                    f"class ModelNew(nn.Module):\n    def forward(self, {listed}):\n"
                    f"        return {call}\n"
                )
            return f"def kernel({listed}):\n    return {call}\n"
        init = _renamed(self.init)
        used = {n.id for n in ast.walk(init) if isinstance(n, ast.Name)}
        unknown = used - _known_names(init, self.imports) - set(self.constants)
        if unknown:
            raise NotReadable(
                f"the constructor of Model uses {min(unknown)!r}, which is neither imported nor a "
                "literal constant"
            )
        constants = "".join(f"{text}\n" for name, text in self.constants.items() if name in used)
        body = "\n".join(f"    {line}" if line else "" for line in ast.unparse(init).splitlines())
        head = f"{constants}\n\n" if constants else ""
        return (
            f"{head}class ModelNew(nn.Module):\n{body}\n\n    def forward(self, {listed}):\n"
            f"        return {call}\n"
        )


def _renamed(init: ast.FunctionDef) -> ast.FunctionDef:
    init = copy.deepcopy(init)
    for node in ast.walk(init):
        if isinstance(node, ast.Name) and node.id == "Model":
            node.id = "ModelNew"
    if ast.get_docstring(init) is not None:
        init.body = init.body[1:] or [ast.Pass()]
    return init


def _known_names(init: ast.FunctionDef, imports: tuple[str, ...]) -> set[str]:
    import builtins

    known = (
        {a.arg for a in (*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs)}
        | set(dir(builtins))
        | {"ModelNew"}
    )
    known |= {a.arg for a in (init.args.vararg, init.args.kwarg) if a is not None}
    known |= {
        n.id for n in ast.walk(init) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    known |= {"torch", "nn"}  # imported by every template
    for text in imports:
        statement = ast.parse(text).body[0]
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            known |= {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    return known


def _arguments(function: ast.FunctionDef, skip: int) -> tuple[tuple[str, ...], dict[str, str]]:
    args = function.args
    if args.vararg or args.kwarg or args.kwonlyargs:
        raise NotReadable(
            f"{function.name} takes *args, **kwargs or keyword-only arguments; plain positional "
            "ones are understood"
        )
    named = [*args.posonlyargs, *args.args][skip:]
    defaults = {
        a.arg: ast.unparse(d)
        for a, d in zip(named[len(named) - len(args.defaults) :], args.defaults, strict=False)
    }
    return tuple(a.arg for a in named), defaults


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def number(value: ast.expr, names: dict[str, float] | None = None) -> float | None:
    """Return the value of a numeric expression of literals and known names, None for others."""
    if (
        isinstance(value, ast.Constant)
        and isinstance(value.value, (int, float))
        and not isinstance(value.value, bool)
    ):
        return value.value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = number(value.operand, names)
        return None if inner is None else -inner
    if isinstance(value, ast.Name):
        return (names or {}).get(value.id)
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("float", "int")
        and len(value.args) == 1
    ):
        inner = number(value.args[0], names)
        return inner if inner is None or value.func.id == "float" else int(inner)
    if isinstance(value, ast.BinOp):
        left, right = number(value.left, names), number(value.right, names)
        if left is None or right is None:
            return None
        try:
            match value.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.Div():
                    return left / right
                case ast.Pow():
                    result = left**right
                    return result if isinstance(result, (int, float)) else None
        except (ZeroDivisionError, OverflowError):
            return None
    return None


def _attributes(
    init: ast.FunctionDef, constants: dict[str, str]
) -> tuple[dict[str, float | None], dict[str, Submodule]]:
    names: dict[str, float] = {}
    for name, text in constants.items():
        constant = ast.parse(text).body[0]
        worth = number(constant.value) if isinstance(constant, ast.Assign) else None
        if worth is not None:
            names[name] = worth
    parameters = {a.arg for a in (*init.args.args, *init.args.kwonlyargs)}
    scalars: dict[str, float | None] = {}
    submodules: dict[str, Submodule] = {}
    for statement in ast.walk(init):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if not (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                continue
            key = f"self.{target.attr}"
            value = statement.value
            if isinstance(value, ast.Call) and isinstance(value.func, (ast.Attribute, ast.Name)):
                kind = value.func.attr if isinstance(value.func, ast.Attribute) else value.func.id
                if kind[:1].isupper() and kind not in ("Parameter", "Tensor"):
                    submodules[key] = Submodule(kind, value)
                    continue
            known = number(value, names)
            if known is not None or (isinstance(value, ast.Name) and value.id in parameters):
                scalars[key] = known  # None: passed to the constructor, read at run time
    return scalars, submodules
