"""LangGraph: its SqliteSaver under a graph of one node whose messages channel grows, as its tutorials do it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

INSTALL = ("langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2")
PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite")
IMPORT = "from langgraph.checkpoint.sqlite import SqliteSaver"
DURABILITY = "WAL, a sync per transaction; the whole state in every checkpoint"


class Peer:
    fill_at_once = True

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        graph = StateGraph(MessagesState)
        graph.add_node("keep", lambda state: {})
        graph.add_edge(START, "keep")
        graph.add_edge("keep", END)
        self._graph = graph.compile(checkpointer=SqliteSaver(self._connection))

    def append(self, session: str, role: str, text: str) -> None:
        self._graph.update_state(_config(session), {"messages": [_message(role, text)]}, as_node="keep")

    def fill(self, session: str, count: int, text: str) -> None:
        messages = [_message("assistant" if n % 2 else "user", text) for n in range(count)]
        self._graph.update_state(_config(session), {"messages": messages}, as_node="keep")

    def last(self, session: str, count: int) -> list[str]:
        state = self._graph.get_state(_config(session))
        return [message.content for message in state.values["messages"][-count:]]

    def sessions(self, count: int) -> None:
        return None

    def close(self) -> None:
        self._connection.close()


def _config(session: str) -> Any:
    return {"configurable": {"thread_id": session}}


def _message(role: str, text: str) -> Any:
    return (AIMessage if role == "assistant" else HumanMessage)(text)
