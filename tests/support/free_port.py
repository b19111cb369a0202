# SPDX-License-Identifier: Apache-2.0
#
# A port for programs that must be told where to listen.

import random
import socket


def free_port():
    """A port that nobody has, out of those that systems do not give away by themselves: one of theirs may be another
    program's by the time that it is listened at."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as place:
            try:
                place.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("none of 100 ports is free")
