"""Loads the text of a task or a candidate as a module, constructs its model, and sets its
parameters, in the same way for both."""

from __future__ import annotations

import contextlib
import copy
import linecache
import sys
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ..wire import dtypes


class LoadError(Exception):
    """An error of the loaded text. kind: from error_report.ERROR_KINDS (`no_entry_point`,
    `syntax_error`, `constructor` …)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class EntryPoint:
    """The names under which a file defines its implementation: a class or a plain function."""

    class_name: str
    function_name: str


TASK = EntryPoint("Model", "reference")
CANDIDATE = EntryPoint("ModelNew", "kernel")


def load(source: str, name: str, filename: str) -> types.ModuleType:
    """Execute the text as a new module. Raises LoadError("syntax_error"), or whatever the text
    raises."""
    try:
        # as an import reads it: with the encoding that it declares, and without the features that
        # this module has imported from __future__
        code = compile(source.encode(), filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise LoadError(
            "syntax_error", f"{filename}, line {line}: {getattr(error, 'msg', error)}"
        ) from error
    # Triton reads the source of its kernels
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module  # needed by dataclasses and pickle
    exec(code, module.__dict__)
    return module


def construct(
    module: types.ModuleType, entry: EntryPoint, init: Any, seed: int, bare: list[Any] | None = None
) -> Callable[..., Any]:
    """Return the model (torch is seeded before its constructor) or the plain function. bare: a list
    with an object to construct it in, if it is of its class; the list is emptied. Raises LoadError.
    """
    import torch

    build = getattr(module, entry.class_name, None)
    if build is None:
        function = getattr(module, entry.function_name, None)
        if callable(function):
            return function  # type: ignore[no-any-return]
        raise LoadError(
            "no_entry_point",
            f"neither class {entry.class_name}(nn.Module) nor a function "
            f"{entry.function_name}(*inputs) is defined",
        )
    torch.manual_seed(seed)
    if bare and (type(bare[0]) is not build or type(build).__call__ is not type.__call__):
        # a metaclass may do more than construct; the object that the class makes is likely to get
        # the place, which is free from here on
        bare.clear()
    try:
        if bare:
            model = bare.pop()
            model.__init__(**init) if isinstance(init, dict) else model.__init__(*init)
            return model  # type: ignore[no-any-return]
        return build(**init) if isinstance(init, dict) else build(*init)  # type: ignore[no-any-return]
    except TypeError as error:
        raise LoadError(
            "constructor",
            f"{entry.class_name} cannot be constructed with the task's init inputs "
            f"{_short(init)}: {error}",
        ) from error


def buffers(model: Any) -> dict[str, Any]:
    """Return all buffers, by name; {} for a function."""
    return dict(model.named_buffers()) if hasattr(model, "named_buffers") else {}


def state(model: Any, others: Collection[str] = ()) -> dict[str, Any]:
    """Return parameters, then persistent buffers, by name; {} for a function. others: names of
    further buffers that are returned, too."""
    if not hasattr(model, "named_parameters"):
        return {}
    names = {*model.state_dict().keys(), *others}
    kept = {name: buffer for name, buffer in buffers(model).items() if name in names}
    return {**dict(model.named_parameters()), **kept}


def make_persistent(model: Any, names: Collection[str]) -> None:
    """Make the buffers with these names persistent, so that they belong to the state."""
    for name, buffer in buffers(model).items():
        if name in names:
            owner, _, own_name = name.rpartition(".")
            model.get_submodule(owner).register_buffer(own_name, buffer)


def match_state(reference: dict[str, tuple[list[int], str]], model: Any) -> dict[str, Any]:
    """Return the model's tensor for each of the reference's names: by name, else by position if
    count, shapes and dtypes agree.

    reference: name -> (shape, dtype). Raises LoadError("parameter_mismatch") with the difference. A
    model without state is accepted only where the reference has none, because its result could not
    depend on the parameters.
    """
    own = state(model, reference)
    if not reference:
        return {}
    candidate = {name: _describe(tensor) for name, tensor in own.items()}
    if all(candidate.get(name) == described for name, described in reference.items()):
        return {name: own[name] for name in reference}
    if len(candidate) == len(reference) and list(candidate.values()) == list(reference.values()):
        return dict(zip(reference, own.values(), strict=True))
    lines = [
        f"  {name}: reference {_spell(w)}, candidate {_spell(candidate.get(name))}"
        for name, w in reference.items()
        if candidate.get(name) != w
    ]
    extra = [name for name in candidate if name not in reference]
    raise LoadError(
        "parameter_mismatch",
        "the parameters do not match the reference's by name, nor by position:\n"
        + "\n".join(lines)
        + (f"\n  only in the candidate: {', '.join(extra)}" if extra else "")
        + (
            "\nKeep the reference's constructor (names and shapes of parameters) and change only "
            "forward."
        ),
    )


def copy_state(targets: dict[str, Any], values: list[Any], *, partly: bool = False) -> None:
    """Copy the reference's values into the model's own tensors, in place, as an optimizer would.
    partly: only those that differ, as one of some of the parameters would."""
    import torch

    with torch.no_grad():
        for target, value in zip(targets.values(), values, strict=True):
            if not (partly and _has_values(target, value)):
                target.copy_(value)


def _has_values(target: Any, value: Any) -> bool:
    there, given = dtypes.comparable(target), dtypes.comparable(value.to(target.device))
    return bool((there == given).all())


def _describe(tensor: Any) -> tuple[list[int], str]:
    return list(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def _spell(description: tuple[list[int], str] | None) -> str:
    return "missing" if description is None else f"{description[1]}{description[0]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 120 else f"{text[:117]}..."


@contextlib.contextmanager
def in_evaluation(model: Any) -> Iterator[None]:
    """Put a module into evaluation mode inside the block, with all of its parts, each of which has
    its own mode afterwards. A function has no mode."""
    parts = list(model.modules()) if hasattr(model, "modules") else []
    before = [part.training for part in parts]
    if parts:
        model.eval()
    try:
        yield
    finally:
        try:
            # by `train`, as programs do: it may be overridden, to take merged weights apart, say
            if parts and before[0]:
                model.train(True)
            for part, training in zip(parts, before, strict=True):
                if part.training != training:
                    part.train(training)
        finally:
            # a part may be without a mode of its own, and a part of two others got the last one's
            for part, training in zip(parts, before, strict=True):
                part.training = training


def copy_with_modes(model: Any) -> Any:
    """Return a deep copy of a module, with its present values, whose mode may be changed: what
    `eval` and `train` do, where they are overridden, may not be undone exactly. A function, which
    has no mode, is returned itself. Raises whatever the copy raises."""
    return copy.deepcopy(model) if hasattr(model, "modules") else model
