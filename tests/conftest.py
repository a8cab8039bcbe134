"""Under pytest, the shapes and types in Regard's signatures are checked at every call."""

from __future__ import annotations

import os

from hypothesis import settings
from jaxtyping import install_import_hook

# before torch is imported: several workers share few cores, and sums in one order are the same everywhere
os.environ.setdefault("OMP_NUM_THREADS", "1")

install_import_hook("regard", "typecheck.check")  # tests/typecheck.py

settings.register_profile("regard", deadline=None)
settings.load_profile("regard")
