"""Memory that the C library keeps though it is free, returned to the system.

glibc returns a large block at once only above a bound that rises to the largest block ever freed, up to 32 MiB; all
else stays in the heap, where one small block behind many free ones holds them: 130 MB after 150 prompts of 1 MB.
"""

from __future__ import annotations

import asyncio
import ctypes

from hivemind.proxy.body_budget import BodyBudget

CHECK_EVERY_S = 1.0
_FEW = 8 << 20
"""Bytes of bodies in memory at most while free memory is returned: it takes a tenth of a millisecond for each megabyte,
in which threads that need memory wait."""
_WORTH = 16 << 20
"""Bytes by which their number must have fallen since it was last done."""
_QUIET_CHECKS = 3
"""Checks in a row that found few; what was freed with the last bodies is returned too."""
_MAPPED_FROM = 1 << 20
"""Bytes of a block that is returned when it is freed: more than is used again and again, as by reads and the journal,
because getting it anew costs a page fault for each 4 KiB."""
_TRIMMED_FROM = 4 << 20
"""Free bytes at the end of the heap that are returned when the last of them is freed."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


async def return_memory(bodies: BodyBudget, started: asyncio.Future[None]) -> None:
    """Return what the start leaves free, once it is over, and free memory whenever few are left of many bodies, until
    cancelled; do nothing where the C library isn't glibc."""
    try:
        libc = ctypes.CDLL(None)
        set_option, trim = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError):
        return
    set_option(_M_MMAP_THRESHOLD, _MAPPED_FROM)
    set_option(_M_TRIM_THRESHOLD, _TRIMMED_FROM)
    await asyncio.wait([started])
    await asyncio.to_thread(trim, 0)
    quiet = 0
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        quiet = quiet + 1 if bodies.used <= _FEW and bodies.most >= bodies.used + _WORTH else 0
        if quiet >= _QUIET_CHECKS:
            quiet, bodies.most = 0, bodies.used
            await asyncio.to_thread(trim, 0)
