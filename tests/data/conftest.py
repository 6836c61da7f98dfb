"""A small life that parses, to be damaged by the tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def row() -> dict[str, Any]:
    """One user in AMemGym's format: 2 periods, 3 sessions, 2 questions about the states pet and flat."""
    return {
        "id": "ann",
        "start_time": "2020-10-01",
        "user_profile": {"uuid": "ann", "age": 41, "formatted_str": "name: Ann\nage: 41"},
        "state_schema": {"pet": ["low", "mid", "high"], "flat": ["small", "large"]},
        "periods": [
            {
                "period_start": None,
                "period_end": "2020-10-01",
                "period_summary": None,
                "sessions": [
                    {
                        "event": None,
                        "exposed_states": {"pet": "low", "flat": "small"},
                        "query": "My cat sleeps all day. Toys?",
                        "messages": [],
                        "session_time": "2020-10-01 20:11:03",
                    }
                ],
                "state": {"pet": "low", "flat": "small"},
                "updates": {"pet": {"old": None, "new": "low"}, "flat": {"old": None, "new": "small"}},
                "update_cnts": {"pet": 1, "flat": 0},
            },
            {
                "period_start": "2020-10-01",
                "period_end": "2021-01-01",
                "period_summary": "A puppy arrives",
                "sessions": [
                    {
                        "event": "Adopted a puppy",
                        "exposed_states": {"pet": "high"},
                        "query": "Our puppy never sits still. Toys?",
                        "messages": [],
                        "session_time": "2020-12-31 19:40:00",
                    },
                    {
                        "event": None,
                        "exposed_states": {},
                        "query": "What is for dinner?",
                        "messages": [],
                        "session_time": "2021-01-01 21:00:59",
                    },
                ],
                "state": {"pet": "high", "flat": "small"},
                "updates": {"pet": {"old": "low", "new": "high"}},
                "update_cnts": {"pet": 1, "flat": 0},
            },
        ],
        "qas": [
            {
                "query": "How should I set up a play corner?",
                "required_info": ["pet", "flat"],
                "answer_choices": [
                    {"state": ["low", "small"], "answer": "A cushion by the heater.", "type": "experience"},
                    {"state": ["high", "small"], "answer": "A tunnel under the sofa.", "type": "experience"},
                    {"state": ["mid", "large"], "answer": "A ramp in the hall.", "type": "random"},
                ],
            },
            {
                "query": "Which food?",
                "required_info": ["pet"],
                "answer_choices": [
                    {"state": ["low"], "answer": "Less of it.", "type": "experience"},
                    {"state": ["mid"], "answer": "As before.", "type": "random"},
                ],
            },
        ],
    }
