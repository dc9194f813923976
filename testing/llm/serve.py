"""serve.py MODEL KEY_FILE ADDRESS_FILE: llama.cpp's own HTTP server, out of the wheel xllamacpp, on a
free port of the loopback. Writes its address once it listens. End it by SIGKILL: SIGTERM waits for
clients."""

import os
import sys
import time

import xllamacpp

model, key_file, address_file = sys.argv[1:]
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
parameters.offline = True
parameters.n_gpu_layers = 0
with open(key_file, encoding="ascii") as file:
    parameters.api_keys = [file.read()]
# As much code as is looked at, with its line numbers, and the prompt.
parameters.n_ctx = 131072
parameters.n_parallel = 1
# Two threads crawl where a compiler runs beside them.
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
with open(address_file + ".new", "w", encoding="ascii") as file:
    file.write(server.listening_address)
os.replace(address_file + ".new", address_file)
while True:
    time.sleep(3600)
