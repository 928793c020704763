"""Import Aesara 2.9 on NumPy >= 2, Python >= 3.12 or setuptools >= 74, where it fails by itself.

`prepare` makes every later ``import aesara`` work, and does not import it. On the versions that
Aesara was written for, Aesara and NumPy stay as they are.

The changes to NumPy are made when Aesara is imported, and apply to the whole process: NumPy gets
back the few names that Aesara uses. No existing name is replaced, and each restored function does
what it did in NumPy 1.26, so a library that asks ``hasattr(np, "cast")`` is not misled.
"""

import copy
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

_NUMPY_2 = int(np.__version__.split(".")[0]) >= 2


def _obj2sctype(rep: Any, default: Any = None) -> Any:
    """Return the scalar type of an array, a dtype or a dtype's name, or else `default`."""
    if isinstance(rep, type) and issubclass(rep, np.generic):
        return rep
    if isinstance(rep, np.ndarray):
        return rep.dtype.type
    try:
        return np.dtype(rep).type
    except (TypeError, ValueError):
        return default


def _sctype2char(sctype: Any) -> str:
    """Return the one-letter code of a dtype: "d" for float64."""
    found = _obj2sctype(sctype)
    if found is None:
        raise ValueError(f"unrecognized type: {sctype!r}")
    return np.dtype(found).char


class _Cast:
    """``np.cast[kind](x)`` converts ``x`` to an array of that dtype."""

    def __getitem__(self, kind: Any) -> Callable[[Any], np.ndarray[Any, Any]]:
        dtype = np.dtype(kind)
        return lambda x: np.asarray(x).astype(dtype)


def _restore_numpy_names() -> None:
    for name, value in (
        ("obj2sctype", _obj2sctype),  # every TensorType
        ("cast", _Cast()),  # gradients of exp2, arcsin, arccosh, ...; batch normalization
        ("sctype2char", _sctype2char),  # an Elemwise of integers with a float result
        ("MAXDIMS", 64),  # "no axis", in CumOp and Softmax
        ("AxisError", np.exceptions.AxisError),  # reductions, `unique`
        ("ComplexWarning", np.exceptions.ComplexWarning),  # gradient of expm; convolutions
    ):
        if name not in vars(np):
            setattr(np, name, value)
    # NumPy still forwards names from `numpy.core`, with a DeprecationWarning at each use. Set them
    # on the module itself: where warnings are errors, no `sum` or `scan` could be built otherwise.
    for module_name, name in (
        ("numpy.core.numeric", "normalize_axis_tuple"),  # every reduction
        ("numpy.core._multiarray_umath", "_get_ndarray_c_version"),  # every Scan
    ):
        module = importlib.import_module(module_name)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            setattr(module, name, getattr(module, name))


def _flags_to_empty() -> list[str]:
    """Return the flags that must be empty for Aesara to work with these versions."""
    if _NUMPY_2:
        # Aesara's C code does not compile against NumPy 2, and there is no `numpy.distutils` to
        # find a BLAS with.
        return ["cxx", "blas__ldflags"]
    try:
        with warnings.catch_warnings(action="ignore"):
            importlib.import_module("numpy.distutils.system_info")
    except ImportError:  # Python >= 3.12 lacks it, and setuptools >= 74 breaks it.
        return ["blas__ldflags"]
    return []


@contextmanager
def _empty(flags: list[str]) -> Generator[None, None, None]:
    """Set these flags to be empty in AESARA_FLAGS, unless the user sets them there or in .aesararc.

    They precede the user's flags: Aesara takes the last of two entries.
    """
    import configparser  # Here, because programs from files do without Aesara.

    rc = configparser.RawConfigParser()
    rc.read(map(os.path.expanduser, os.environ.get("AESARARC", "~/.aesararc").split(os.pathsep)))

    def in_rc(flag: str) -> bool:
        section, _, option = flag.rpartition("__")
        return rc.has_option(section or "global", option)

    before = os.environ.get("AESARA_FLAGS")
    defaults = [f"{flag}=" for flag in flags if not in_rc(flag)]
    os.environ["AESARA_FLAGS"] = ",".join([*defaults, before or ""])
    try:
        yield
    finally:
        del os.environ["AESARA_FLAGS"]
        if before is not None:
            os.environ["AESARA_FLAGS"] = before


@contextmanager
def _as_aesara_needs() -> Generator[None, None, None]:
    """Import Aesara within this context."""
    if any(name.startswith("aesara.") for name in sys.modules):
        raise ImportError(
            "An earlier `import aesara` failed in this process and left Aesara half imported.\n"
            "With these versions of NumPy and Python, Aesara cannot be imported by itself.\n"
            "Start a new process (restart a notebook's kernel) and `import jaxprgen` before aesara."
        )
    flags = _flags_to_empty()
    if flags:  # Aesara would log a warning about the empty `blas__ldflags`.
        logging.getLogger("aesara.tensor.blas").addFilter(_is_not_about_blas_flags)
    with _empty(flags), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="aesara")
        yield


def _is_not_about_blas_flags(record: logging.LogRecord) -> bool:
    return "NumPy C-API based implementation for BLAS" not in record.getMessage()


def _mend_aesara() -> None:
    """Restore the results that Aesara gives on NumPy 1."""
    scalar: Any = importlib.import_module("aesara.scalar.basic")
    tensor_var: Any = importlib.import_module("aesara.tensor.var")
    random_op: Any = importlib.import_module("aesara.tensor.random.op")

    # Aesara passes types and variables as dtypes (gradients of deg2rad and zero_grad). Their
    # `dtype` is a string, which NumPy >= 2.4 ignores in favor of this attribute.
    for owner in (scalar.ScalarType, tensor_var._tensor_py_operators):
        owner.__numpy_dtype__ = property(lambda self: np.dtype(self.dtype))

    # A RandomVariable draws from a copy of its generator. In NumPy 2 a shallow copy shares the
    # state, so two draws from one RNG variable would differ and advance the user's generator.
    random_op.copy = copy.deepcopy

    # Aesara stores a Python float as the smallest dtype that holds it exactly. NumPy 2 compares a
    # float32 with a Python float in float32 (NEP 50), so 0.1 and even 1e300 would pass for float32.
    autocast = scalar.NumpyAutocaster.__call__

    def exact_autocast(self: Any, x: Any) -> Any:
        found = autocast(self, x)
        if type(x) is float and scalar.config.floatX == "float64" and found != np.asarray(x):
            return np.asarray(x).astype(self.dtypes[-1])
        return found

    scalar.NumpyAutocaster.__call__ = exact_autocast

    # For the same reason, the `float32(1) / x` in this method would lose half the digits of x.
    scalar.Reciprocal.impl = lambda _, x: np.float64(1) / x


def _mended(after: Callable[[], object]) -> None:
    """Finish an import of Aesara."""
    if _NUMPY_2:
        _restore_numpy_names()  # Once more, if Aesara was imported without this module.
        _mend_aesara()
    after()


class _Loader(Loader):
    """A module's own loader, which runs the module within a context."""

    def __init__(self, own: Any, around: Callable[[], AbstractContextManager[None]]) -> None:
        self._own = own
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._own
        with self._around():
            self._own.exec_module(module)


class _Finder(MetaPathFinder):
    """Finds a module as the other finders do, and gives it a `_Loader`."""

    def __init__(self, name: str, around: Callable[[], AbstractContextManager[None]]) -> None:
        self._name = name
        self._around = around

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # A target is reloaded: it was prepared when it was first imported.
        if fullname != self._name or target is not None:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(fullname, path) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._around)
        return spec


def prepare(after: Callable[[], object]) -> None:
    """Mend Aesara when it is imported, or now if it already is, and then call ``after``."""

    @contextmanager
    def mending() -> Generator[None, None, None]:
        if _NUMPY_2:
            _restore_numpy_names()
        with _as_aesara_needs():
            yield
        _mended(after)

    if sys.modules.get("aesara") is not None:
        _mended(after)
    else:
        sys.meta_path.insert(0, _Finder("aesara", mending))


def when_imported(name: str, after: Callable[[], object]) -> Callable[[], None]:
    """Call ``after`` when a module has been imported, or now if it already is.

    Return a function that ends the wait.
    """

    @contextmanager
    def importing() -> Generator[None, None, None]:
        yield
        after()

    finder = _Finder(name, importing)
    if sys.modules.get(name) is not None:
        after()
    else:
        sys.meta_path.insert(0, finder)

    def stop() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return stop
