"""Where a job's coroutine runs. `base` holds the protocol, `execute` what every runner calls."""
