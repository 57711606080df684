"""`postroom` whose hosts have other pauses: host_program.py BREAKER_PAUSE_IN_SECONDS host

They look at everything once an hour only: no test may rely on that.
"""

from __future__ import annotations

import sys
from functools import partial

from postroom import hosted
from postroom.cli.main import main
from postroom.host.runner import HostSettings

if __name__ == "__main__":
    breaker_pause = float(sys.argv.pop(1))
    setattr(  # noqa: B010 - a class cannot be assigned to
        hosted, "HostSettings", partial(HostSettings, breaker_pause=breaker_pause, refresh=3600.0)
    )
    main()
