"""The bare name of a GPU kernel: its function, without types, arguments and mangling."""

import re
from collections.abc import Iterator
from functools import lru_cache

# Kernels that run a function they are given: that function says more.
_RUNS_GIVEN = re.compile(r"kentry[0-9]*|reduce_kernel|\w*elementwise_kernel\w*")
# Types, and templates that only hand on the function they are given.
_NOT_TELLING = re.compile(
    r"void|bool|char|short|int|long|unsigned|signed|float|double|const|true|false|complex|BFloat16|Half"
    r"|__half|__(?:nv|hip)_bfloat16|gpu_kernel_impl(?:_nocast)?|gpu_index_kernel|index_kernel_impl"
    r"|ReduceOp|func_wrapper_t|OpaqueType|[AB]UnaryFunctor|BinaryFunctor"
)
_ANONYMOUS = re.compile(r"[({<`](?:anonymous(?: namespace)?|unnamed)[)}>']::")
_PIECE = re.compile(r"(?<![\w.$])[A-Za-z_]\w*|[<>()\[\]{}]")
_OPENER_OF = {">": "<", ")": "(", "]": "[", "}": "{"}
# Itanium mangling: a name follows its length; digits also stand in literals, substitutions and types.
_LENGTH = re.compile(r"[1-9][0-9]{0,3}")
_NO_LENGTH = re.compile(r"L[a-z]n?[0-9]{1,20}E|S[0-9A-Z]{0,8}_|T[0-9]{0,8}_|DF[0-9]{1,4}[_b]?")


@lru_cache(maxsize=16384)
def bare_kernel_name(name: str) -> str:
    """Return the name of a kernel's function, for display.

    Namespaces, template and call arguments, the return type and suffixes such as ``.kd`` are left out, and
    mangling is undone as far as that takes. A generic kernel that runs a function it is given is followed by
    that function's name, since on its own it tells nothing; a plain entry point gives way to it. A name
    without a function is returned as it is.

    Examples
    --------
    >>> bare_kernel_name("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)")
    'vectorized_layer_norm_kernel'
    >>> bare_kernel_name("void at::native::elementwise_kernel<4, at::native::FillFunctor<int> >(int)")
    'elementwise_kernel (FillFunctor)'
    >>> bare_kernel_name("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdIfEEEEvv")
    'Rmsnorm2dFwd'
    """
    function, given = _mangled(name) if name.startswith("_Z") else _demangled(name)
    if not given or not _RUNS_GIVEN.fullmatch(function):
        return function or name
    return given if function.startswith("kentry") else f"{function} ({given})"


def _demangled(name: str) -> tuple[str, str]:
    """Return the last name outside all brackets before the call's, and the first telling one inside."""
    text = _ANONYMOUS.sub("", name)
    function = given = ""
    open_brackets: list[str] = []
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece in "<({[":
            if piece in "([" and function and not open_brackets:
                break
            open_brackets.append(piece)
        elif piece in _OPENER_OF:
            _close(open_brackets, piece)
        elif not open_brackets:
            function, given = piece, ""
        elif not (given or _NOT_TELLING.fullmatch(piece) or text.startswith("::", match.end())):
            given = piece
    return function, given


def _close(open_brackets: list[str], closer: str) -> None:
    """Close a bracket and what stands open in it; ``>`` closes only ``<``, for else it compares."""
    opener = _OPENER_OF[closer]
    if closer == ">" and open_brackets[-1:] != [opener]:
        return
    while open_brackets and open_brackets.pop() != opener:
        pass


def _mangled(name: str) -> tuple[str, str]:
    names = _names_of_mangled(name)
    return next(names, ""), next((given for given in names if not _NOT_TELLING.fullmatch(given)), "")


def _names_of_mangled(name: str) -> Iterator[str]:
    """Yield the last part of each qualified name in a mangled one."""
    position, last = len("_Z"), ""
    while position < len(name):
        length = _LENGTH.match(name, position)
        end = length.end() + int(length.group()) if length else 0
        if length and end <= len(name):
            last, position = name[length.end() : end], end
            continue
        if last:
            yield last
            last = ""
        other = _NO_LENGTH.match(name, position)
        position = other.end() if other else position + 1
    if last:
        yield last
