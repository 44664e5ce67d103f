"""Documents name the GPUs' driver: of nodes, attempts, probes and kept runs.

No table changes. An older release can't read such documents, and by the number of its tables it knows that
before it takes over.
"""

from __future__ import annotations

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Documents are written with their drivers from now on."""


def downgrade() -> None:
    """Documents stay as they are: a release that does not know drivers reads those without alone."""
