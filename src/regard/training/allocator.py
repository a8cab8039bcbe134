"""Where large buffers go when they are freed: kept by the process instead of given back to the system."""

from __future__ import annotations

import ctypes
import sys

# from glibc's malloc.h; the values are bytes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER_TRIM = (1 << 31) - 1
_MAP_FROM = (1 << 30, 32 << 20)  # some versions of glibc refuse more than the second


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
