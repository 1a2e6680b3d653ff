"""vLLM's own rendering and parsing without an engine, for several models at once in one process.

Reads one JSON object from stdin: `folder`, an empty one, and `models`, each with the `name`,
`template`, `specials`, `tool_parser` and `reasoning_parser` (or null) of a server. Prints one line,
a JSON object from names to URLs, and serves until stdin is closed. Runs in vLLM's environment
(tests/testbed/vllm.py) and imports nothing of ours. It does what `vllm launch render` does, which
takes one model a process.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn  # type: ignore[import-not-found]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from vllm import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.config import VllmConfig  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.app import build_app  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.render.app_state import (  # type: ignore[import-not-found]
    init_render_app_state,
)
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 1,
    "max_position_embeddings": 8192,
    "vocab_size": 1024,
    "torch_dtype": "float32",
}


def write_model(folder: Path, model: dict[str, Any]) -> None:
    """A model without weights: its shape, its template and a byte-level BPE tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SHAPE))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=model["specials"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([model["template"]], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    written = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": model["bos"] or None,
        "eos_token": model["end"],
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(written))
    (folder / "chat_template.jinja").write_text(model["template"])


async def serve(folder: Path, model: dict[str, Any]) -> tuple[str, "asyncio.Task[None]"]:
    """Start one server; its URL and the task that runs it."""
    write_model(folder, model)
    arguments = ["--model", str(folder), "--served-model-name", "policy", "--enable-scale-out"]
    arguments += ["--enable-auto-tool-choice", "--tool-call-parser", model["tool_parser"]]
    arguments += ["--max-model-len", "4096"]
    if model["reasoning_parser"]:
        arguments += ["--reasoning-parser", model["reasoning_parser"]]
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
    engine = AsyncEngineArgs.from_cli_args(args)
    config = VllmConfig(
        model_config=engine.create_model_config(),
        structured_outputs_config=engine.create_structured_outputs_config(),
    )
    app = build_app(args, ("render",))
    await init_render_app_state(config, app.state, args)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    task = asyncio.create_task(server.serve([listening]))
    return f"http://127.0.0.1:{listening.getsockname()[1]}", task


async def main() -> None:
    """Serve all models until stdin is closed."""
    asked = json.loads(sys.stdin.readline())
    urls, tasks = {}, []
    for number, model in enumerate(asked["models"]):
        urls[model["name"]], task = await serve(Path(asked["folder"]) / str(number), model)
        tasks.append(task)
    print(json.dumps(urls), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
