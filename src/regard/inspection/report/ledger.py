"""Where do parameters, memory and work sit? The data of the report's ledger section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.inspection.ledger import Amounts, Ledger
from regard.inspection.names import IN_LEDGER, module_name


@dataclass(frozen=True)
class LedgerSection:
    """The ledger tab.

    Attributes:
        ledger: What ``ledger`` told.
        note: A sentence below the numbers: for which lengths FLOPs were counted, say.
        name: The tab's name.
    """

    ledger: Ledger
    note: str = ""
    name: str = "Ledger"

    def data(self) -> dict[str, Any]:
        """Return the section as the page reads it."""
        return {
            "type": "ledger",
            "name": self.name,
            "legend": IN_LEDGER,
            "note": self.note,
            "entries": [
                {
                    "path": entry.path,
                    "name": module_name(entry.path, entry.kind),
                    "kind": entry.kind,
                    "depth": entry.depth,
                    "own": _amounts_data(entry.own),
                    "total": _amounts_data(entry.total),
                    "shared": list(entry.shared),
                    "shared_with": self.ledger.shared_with(entry),
                }
                for entry in self.ledger
            ],
        }


def _amounts_data(amounts: Amounts) -> dict[str, int]:
    return {
        "parameters": amounts.parameters,
        "bytes": amounts.num_bytes,
        "flops": amounts.flops,
        "activations": amounts.activations,
    }
