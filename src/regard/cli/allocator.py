"""Where large buffers go when they are freed: kept by the process, in holes that the next ones fit into."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

# from glibc's malloc.h; the values are bytes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER_TRIM = (1 << 31) - 1
_MAP_FROM = (1 << 30, 32 << 20)  # some versions of glibc refuse more than the second

_TUNABLES, _CACHES = "GLIBC_TUNABLES", "glibc.malloc.tcache_count"


def keep_freed_memory() -> bool:
    """Let glibc keep what is freed, for this process; return whether it could.

    By default every larger tensor is mapped afresh from the system and zeroed page by page, again at each update. Only
    a program may decide this, never a library on import. Elsewhere than on glibc nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # not glibc
        return False
    mapped_later = any(mallopt(_M_MMAP_THRESHOLD, size) for size in _MAP_FROM)
    return mapped_later and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIM))


def environment_without_caches(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the environment in which a process of glibc lets freed blocks join up; None if there is nothing to do.

    torch asks for aligned blocks. glibc (2.36) cuts each from a larger one and frees what is left over, less than a
    hundred bytes; its cache for small blocks takes them, and from there they never join their neighbours again. The
    hole that the large block leaves is then those bytes too small for the next tensor of the same size. The cache can
    only be left out from the start of a process. There is nothing to do where somebody has set it, or the C library is
    another.
    """
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return None
    except (AttributeError, ValueError, OSError):  # not a system of this kind, or none that knows the word
        return None
    said = environment.get(_TUNABLES, "")
    if _CACHES in said:
        return None
    return {**environment, _TUNABLES: ":".join(filter(None, (said, f"{_CACHES}=0")))}
