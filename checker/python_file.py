"""Loading what a user wrote: pipelines from a Python file, with every mistake told as file, line and remedy."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from types import ModuleType

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.instances import roles_of
from sm90_verify.spec.language.pipeline import Pipeline


def load_module(path: str) -> ModuleType:
    """Executes a Python file; raises SpecError with the line where it cannot be."""
    if not isinstance(path, str):
        raise SpecError(f"{str(path)[:40]} is no name of a file: name a Python file")
    if not os.path.isfile(path):
        what = "a folder: name a Python file in it" if os.path.isdir(path) else "no such file"
        raise SpecError(f"{path}: {what}")
    module_name = f"_verified_{os.path.splitext(os.path.basename(path))[0]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise SpecError(f"{path}: not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except SpecError as error:
        raise error.at(_line_in(path, error)) from None
    except SyntaxError as error:
        raise SpecError(f"{error.msg}", Source(path, error.lineno or 1)) from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not a Python file (it is not UTF-8 text)") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a file that ends the program leaves nothing to check
        raise SpecError(f"{type(error).__name__}: {error}", _line_in(path, error)) from None
    finally:
        sys.path.remove(folder)
    return module


def load_classes(path: str, name: str = "") -> tuple[type[Pipeline], ...]:
    """The Pipeline classes with roles that a file defines (not those that begin with _), or the one that is named."""
    if not isinstance(name, str):
        raise SpecError(f"{path}: {str(name)[:40]} is no name of a class: name one, or none")
    module = load_module(path)
    found = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Pipeline) and value.__module__ == module.__name__
    }
    if name:
        if name not in found:
            raise SpecError(f"{path} defines no pipeline {name!r}: it has {', '.join(found) or 'none'}")
        return (found[name],)
    chosen = tuple(value for key, value in found.items() if not key.startswith("_") and roles_of(value))
    if not chosen:
        raise SpecError(f"{path} defines no pipeline: write a class with roles that inherits from Pipeline")
    return chosen


def _line_in(path: str, error: BaseException) -> Source:
    here = os.path.abspath(path)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.abspath(frame.filename) == here]
    return Source(path, frames[-1].lineno or 1) if frames else Source(path, 1)
