"""llama.cpp's own server, from the package xllamacpp: `llamacpp.py MODEL.gguf PORT SLOTS`. Needs nothing else."""

import signal
import sys

import xllamacpp

model, port, slots = sys.argv[1:]
given = xllamacpp.CommonParams()
given.model.path = model
given.hostnames, given.port = ["127.0.0.1"], int(port)
given.n_parallel, given.n_ctx = int(slots), 65_536 * int(slots)
given.warmup = given.fit_params = False
given.use_jinja = given.endpoint_slots = given.endpoint_metrics = True
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(given)
print("listening", server.listening_address, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
signal.pause()
