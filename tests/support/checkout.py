"""A checkout in the form of tau2-bench's, with a domain of one shop: the modules and the names that are used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = {
    "__init__.py": "raise RuntimeError('what agents and voices need is not imported')",
    "utils/__init__.py": "",
    "utils/utils.py": "from pathlib import Path\nDATA_DIR = Path(__file__).parents[3] / 'data'",
    "data_model/__init__.py": "",
    "data_model/message.py": """
from typing import Any
from pydantic import BaseModel

class ToolCall(BaseModel):
    id: str
    name: str
    arguments: dict[str, Any]
    requestor: str = "assistant"
""",
    "data_model/tasks.py": """
from typing import Any
from pydantic import BaseModel

class InitializationData(BaseModel):
    agent_data: dict[str, Any] | None = None
    user_data: dict[str, Any] | None = None

class EnvFunctionCall(BaseModel):
    env_type: str
    func_name: str
    arguments: dict[str, Any]

class EnvAssertion(EnvFunctionCall):
    assert_value: bool = True
    message: str | None = None
""",
    "domains/__init__.py": "",
    "domains/shop/__init__.py": "",
    "domains/shop/environment.py": """
import inspect
import json
from types import SimpleNamespace
from tau2.utils.utils import DATA_DIR

class Kit:
    def get_tools(self):
        names = [name for name in vars(type(self)) if name[0] != "_" and not name.startswith("is_")]
        return {name: SimpleNamespace(openai_schema=schema(name, getattr(self, name))) for name in names}

def schema(name, function):
    taken = list(inspect.signature(function).parameters)
    parameters = {"type": "object", "properties": {n: {"type": "string"} for n in taken}, "required": taken}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}

class Shop(Kit):
    def __init__(self, db):
        self.db = SimpleNamespace(**db)
    def get_user(self, user_id):
        return {"user_id": user_id, "orders": self.db.users[user_id]}
    def get_order(self, order_id):
        if order_id not in self.db.orders:
            raise ValueError("Order not found")
        return {"order_id": order_id, **self.db.orders[order_id]}
    def give_back(self, order_id, item_id):
        self.get_order(order_id)["returned"].append(item_id)
        return "Done"
    def is_returned(self, order_id, item_id):
        return item_id in self.get_order(order_id)["returned"]

class Phone(Kit):
    def __init__(self):
        self.db = SimpleNamespace(light=False)
    def turn_light(self):
        self.db.light = not self.db.light
        return f"The light is {self.db.light}"

class Environment:
    policy = "Be kind."
    def __init__(self, tools, user_tools):
        self.tools, self.user_tools = tools, user_tools
    def set_state(self, initialization_data, initialization_actions, message_history):
        for action in initialization_actions or []:
            self._function(action)(**action.arguments)
    def _function(self, call):
        return getattr(self.tools if call.env_type == "assistant" else self.user_tools, call.func_name)
    def get_response(self, call):
        tools = self.tools if call.requestor == "assistant" else self.user_tools
        try:
            value, error = getattr(tools, call.name)(**call.arguments), False
        except Exception as problem:
            value, error = f"Error: {problem}", True
        return SimpleNamespace(content=value if isinstance(value, str) else json.dumps(value), error=error)
    def run_env_assertion(self, assertion, raise_assertion_error):
        return self._function(assertion)(**assertion.arguments) == assertion.assert_value
    def get_db_hash(self):
        return json.dumps(vars(self.tools.db), sort_keys=True)
    def get_user_db_hash(self):
        return json.dumps(vars(self.user_tools.db), sort_keys=True)

def get_environment(solo_mode=False):
    db = json.loads((DATA_DIR / "tau2" / "domains" / "shop" / "db.json").read_text())
    return Environment(Shop(db), Phone())
""",
}
ITEMS = [{"item_id": "item-77", "name": "red hat"}, {"item_id": "item-88", "name": "blue hat"}]
DATABASE = {
    "users": {"ada_1": ["#W100", "#W200"], "bram_2": []},
    "orders": {
        "#W100": {"items": [], "returned": []},
        "#W200": {"items": ITEMS, "returned": []},
    },
}


def action(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    return {"action_id": str(number), "name": name, "arguments": arguments, "info": None}


GIVE_BACK = [
    action(0, "get_user", user_id="ada_1"),
    action(1, "get_order", order_id="#W200"),
    action(2, "give_back", order_id="#W200", item_id="item-88"),
]
ROWS = [
    {
        "id": "back",
        "user_scenario": {"persona": None, "instructions": "You are ada_1 and bring back the blue hat, politely."},
        "initial_state": None,
        "evaluation_criteria": {
            "actions": GIVE_BACK,
            "communicate_info": ["item-88"],
            "nl_assertions": None,
            "reward_basis": ["DB", "COMMUNICATE", "NL_ASSERTION"],
        },
        "issues": [],
    },
    {
        "id": "nothing",
        "user_scenario": {"instructions": "You only say hello."},
        "evaluation_criteria": {"actions": [], "reward_basis": ["DB"]},
    },
    {
        "id": "begun",
        "user_scenario": {
            "instructions": {"domain": "shop", "reason_for_call": "#W200", "task_instructions": "Be brief."}
        },
        "initial_state": {
            "initialization_data": {"agent_data": None, "noted": {}},
            "initialization_actions": [{"env_type": "user", "func_name": "turn_light", "arguments": {}}],
            "message_history": [
                {"role": "user", "content": "I bring back the red hat.", "turn_idx": 0},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "1", **GIVE_BACK[2], "arguments": {"order_id": "#W200", "item_id": "item-77"}}
                    ],
                },
                {"role": "tool", "id": "1", "content": "Done"},
                {"role": "assistant", "content": "The red hat {is} back."},
            ],
        },
        "evaluation_criteria": {
            "actions": [{**action(0, "turn_light"), "requestor": "user"}, action(1, "get_order", order_id="#W200")],
            "env_assertions": [
                {
                    "env_type": "assistant",
                    "func_name": "is_returned",
                    "arguments": {"order_id": "#W200", "item_id": "item-77"},
                }
            ],
            "nl_assertions": ["The agent is polite."],
            "reward_basis": ["DB", "ENV_ASSERTION", "ACTION", "NL_ASSERTION"],
        },
    },
]


def write_checkout(folder: Path) -> Path:
    """Write the checkout into a folder."""
    for name, text in SOURCE.items():
        file = folder / "src" / "tau2" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    data = folder / "data" / "tau2" / "domains" / "shop"
    data.mkdir(parents=True)
    (data / "db.json").write_text(json.dumps(DATABASE), encoding="utf-8")
    (data / "tasks.json").write_text(json.dumps(ROWS), encoding="utf-8")
    return folder
