"""What runs inside AMemGym's own environment, with its own Python: its self-evolution, under one agent config.

python evolution_in_reference.py SOURCE AGENT_CONFIG DATA ENV_CONFIG URL OUT

Leaves in OUT the texts of its prompts, with slots, and the results of its own code, diagnosis included.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from in_reference import GUESSES, model_at, opened, play, texts  # type: ignore[import-not-found]  # beside this script

TYPES = "@@TYPES@@"
SLOTS = {"current_memories": "{current_memories}", "conversation": "{conversation}"}


def evolution_texts(config: dict[str, Any]) -> dict[str, str]:
    """Find out the prompts that this agent starts from, and those that rewrite them."""
    from amemgym.assistants import evolvable, prompts

    start = config.get("evolution_config", {}).get("init_prompt_type", "default")
    if config["type"] == "awi-hack":
        write = prompts.get_in_context_hack_prompt(TYPES).format(**SLOTS)
    elif "info_type" in start:
        template = prompts.IN_CONTEXT_MEMORY_UPDATE_PROMPT_TEMPLATE
        write = template.format(memory_types_section=TYPES).format(**SLOTS)
    else:
        write = prompts.IN_CONTEXT_MEMORY_UPDATE_PROMPT.format(**SLOTS)

    call, evolvable.call_llm = evolvable.call_llm, lambda *_, **__: '{"new_prompt": "", "changes": []}'
    evolution = {"targets": ["memory_update_prompt"], "init_prompt_type": "default"}
    agent = evolvable.EvolvableInContextAgent({"llm_config": {}, "agent_config": {}, "evolution_config": evolution})
    lost = agent._evolve_policy([])["new_prompts"]["memory_update_prompt"]
    evolvable.call_llm = call
    _, types = agent._build_info_type_evolution_prompt("{info_types}", "{feedback_ascii}", False)
    guided, _ = agent._build_info_type_evolution_prompt("{info_types}", "{feedback_ascii}", True)
    system, whole = agent._build_evolution_prompt("memory_update_prompt", "{prompt}", "{feedback_ascii}")
    return {
        "info_types": prompts.MEMORY_TYPES_SECTION,
        "write_profile": write.replace(TYPES, "{info_types}"),
        "write_profile_minimal": prompts.MINIMAL_MEMORY_PROMPT_V2.format(**SLOTS),
        "evolve_info_types_guided": guided["content"],
        "evolve_info_types": types["content"],
        "evolve_prompt_system": system["content"],
        "evolve_prompt": whole["content"],
        "lost_slots": lost.strip("\n").format(**SLOTS),
    }


def main(source: str, agent_file: str, data_file: str, env_file: str, url: str, out: str) -> None:
    """Run the agent on every user, one after the other, as the released scripts do."""
    data, env, folder = opened(source, data_file, env_file, url, out)
    from amemgym.eval import diagnosis, evolution, overall

    config = json.loads(Path(agent_file).read_text()) | {"llm_config": model_at(url)}
    prompts = texts() | evolution_texts(config)
    (folder / "texts.json").write_text(json.dumps(prompts, ensure_ascii=False), encoding="utf-8")
    evolves = config["type"] == "awi-evolve"
    random.seed(GUESSES)
    play(config, data, folder, evolution.evaluate_item if evolves else overall.evaluate_item, env)
    if evolves:  # its diagnosis does not know what its oracle would have known
        play(config, data, folder, diagnosis.diagnose_item)


if __name__ == "__main__":
    main(*sys.argv[1:])
