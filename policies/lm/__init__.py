"""Language models: any OpenAI-compatible endpoint, and the embedded one that needs no key and no download."""

from .base import (
    Completion,
    Embedder,
    Embedding,
    EndpointDown,
    LanguageModel,
    LanguageModelError,
    Message,
    Refused,
    Request,
    Tool,
    ToolCall,
)
from .budget import Budget, BudgetExhausted, Consumed, Limits, on_account
from .charges import Charges, ChargesError
from .ledger import CALL_ROLES, CallRole, Ledger, Spend, Usage, merged
from .metered import Metered, MeteredEmbedder

__all__ = [
    "CALL_ROLES",
    "Budget",
    "BudgetExhausted",
    "CallRole",
    "Charges",
    "ChargesError",
    "Completion",
    "Consumed",
    "Embedder",
    "Embedding",
    "EndpointDown",
    "LanguageModel",
    "LanguageModelError",
    "Ledger",
    "Limits",
    "Message",
    "Metered",
    "MeteredEmbedder",
    "Refused",
    "Request",
    "Spend",
    "Tool",
    "ToolCall",
    "Usage",
    "merged",
    "on_account",
]
