"""Many seeded requests against the REST service, and many orders; writes what came of them.

`python scripts/service_soak.py [EXAMPLES]` takes minutes; a few of the same are in `make test`.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/service")]

from contract_checks import check_operation, known_ids, listening, operations  # noqa: E402
from service_api import open_api  # noqa: E402

SEED = 20261130
RESULT = ROOT / "tests/service/contract-soak.json"


def main() -> int:
    """Run and write; returns 1 where anything broke the contract."""
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    told: dict[str, object] = {}
    failed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        open_api(Path(folder)) as api,
        listening(api) as address,
    ):
        known = known_ids(api)
        for label in operations():
            started, failures, sent = time.monotonic(), [], 0
            try:
                sent = check_operation(label, address, known, examples=examples, seed=SEED)
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  it is the result
                failures = [str(error)[:2000]]
            failed += len(failures)
            told[label] = {"examples": sent, "failures": failures}
            sys.stderr.write(
                f"{label}: {sent} requests, {time.monotonic() - started:.0f} s, "
                f"{len(failures)} failures\n"
            )
    result = {"seed": SEED, "operations": told}
    RESULT.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
