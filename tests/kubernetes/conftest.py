"""Where the watcher's packages and the connector contract are."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
for place in ("infra/slurm", "infra/kubernetes", "tests/contract"):
    sys.path.insert(0, str(ROOT / place))
