"""Write the verdict that `make demo` prints into README.md, between its two markers."""

import json
import re
import sys
from pathlib import Path

from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book
from rootrank.text import render_verdict

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"<!-- verdict -->\n.*?<!-- /verdict -->", re.DOTALL)


def demo_verdict() -> str:
    """Return the text of the demo's verdict, as the command line prints it without colour."""
    event = json.loads((ROOT / "events/demo.json").read_text(encoding="utf-8"))
    bundle = (ROOT / "events" / event["detail"]["bundle_uri"]).resolve()
    return render_verdict(attribute_path(bundle, book=load_book(None)), colour=False).rstrip()


def with_verdict(readme: str, verdict: str) -> str:
    """Return `readme` with the block replaced."""
    block = f"<!-- verdict -->\n```\n{verdict}\n```\n<!-- /verdict -->"
    return BLOCK.sub(lambda _: block, readme)


if __name__ == "__main__":
    README.write_text(with_verdict(README.read_text(encoding="utf-8"), demo_verdict()), "utf-8")
    sys.exit(0)
