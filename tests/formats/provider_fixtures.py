"""Conversations as the providers document them, one list per case: what they accept, and what they return."""

from __future__ import annotations

import base64
from typing import Any

Conversation = list[dict[str, Any]]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n not a real image").decode()
PDF = base64.b64encode(b"%PDF-1.7 not a real document").decode()
WAV = base64.b64encode(b"RIFF not a real sound").decode()

ANTHROPIC: dict[str, Conversation] = {
    "plain text": [
        {"role": "user", "content": "Hello, Claude"},
        {"role": "assistant", "content": "Hi! How can I help?"},
        {"role": "user", "content": [{"type": "text", "text": "Can you describe LLMs?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Of course."}]},
    ],
    "parallel calls": [
        {"role": "user", "content": "Weather in Paris and Rome?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I'll look at both."},
                {"type": "tool_use", "id": "toolu_01A", "name": "get_weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "toolu_01B", "name": "get_weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "15 degrees"},
                {"type": "tool_result", "tool_use_id": "toolu_01B", "content": "no city", "is_error": True},
                {"type": "text", "text": "And hurry."},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Paris has 15 degrees."}]},
    ],
    "shapes of results": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": {"n": n}} for n in range(6)],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_0"},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": ""},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": []},
                {"type": "tool_result", "tool_use_id": "toolu_3", "content": "x", "is_error": False},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_4",
                    "content": [
                        {"type": "text", "text": "a screenshot"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "doc"}},
                        {
                            "type": "search_result",
                            "source": "https://example.com",
                            "title": "T",
                            "content": [{"type": "text", "text": "found"}],
                            "citations": {"enabled": True},
                        },
                    ],
                    "cache_control": {"type": "ephemeral"},
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_5",
                    "content": [{"type": "tool_reference", "tool_name": "later"}],
                },
            ],
        },
    ],
    "thinking": [
        {"role": "user", "content": "27 * 453?"},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": "Let me multiply.",
                    "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl",
                },
                {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw"},
                {"type": "text", "text": "I need the calculator."},
                {"type": "tool_use", "id": "toolu_1", "name": "calc", "input": {"e": "27*453"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "12231"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "omitted=="},
                {"type": "text", "text": "12,231."},
            ],
        },
    ],
    "images and documents": [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/ant.jpg"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_abc123"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                    "title": "report.pdf",
                    "context": "from last year",
                    "citations": {"enabled": True},
                    "cache_control": {"type": "ephemeral", "ttl": "1h"},
                },
                {"type": "document", "source": {"type": "url", "url": "https://example.com/d.pdf"}},
                {"type": "document", "source": {"type": "file", "file_id": "file_doc"}, "title": "D"},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "grün"},
                    "title": None,
                },
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"type": "text", "text": "chunk one"}]},
                },
                {"type": "container_upload", "file_id": "file_up"},
                {"type": "text", "text": "What is in these?"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "type": "text",
                    "text": "The grass is green.",
                    "citations": [
                        {
                            "type": "char_location",
                            "cited_text": "The grass is green.",
                            "document_index": 0,
                            "document_title": "report.pdf",
                            "start_char_index": 0,
                            "end_char_index": 20,
                        }
                    ],
                },
            ],
        },
    ],
    "server tools": [
        {"role": "user", "content": "When was Claude Shannon born?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I'll search."},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "shannon"}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [
                        {
                            "type": "web_search_result",
                            "url": "https://en.wikipedia.org/wiki/Claude_Shannon",
                            "title": "Claude Shannon",
                            "encrypted_content": "EqgfCioIARgBIiQ3",
                            "page_age": "April 30, 2025",
                        }
                    ],
                },
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_2",
                    "name": "bash_code_execution",
                    "input": {"command": "ls"},
                },
                {
                    "type": "bash_code_execution_tool_result",
                    "tool_use_id": "srvtoolu_2",
                    "content": {
                        "type": "bash_code_execution_result",
                        "stdout": "a",
                        "stderr": "",
                        "return_code": 0,
                        "content": [],
                    },
                },
                {"type": "text", "text": "April 30, 1916.", "citations": None},
            ],
        },
    ],
    "MCP": [
        {"role": "user", "content": "use the connector"},
        {
            "role": "assistant",
            "content": [
                {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s", "input": {"p": 1}},
                {
                    "type": "mcp_tool_result",
                    "tool_use_id": "mcptoolu_1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "Hello"}],
                },
                {"type": "text", "text": "done"},
            ],
        },
    ],
    "a whole response": [
        {"role": "user", "content": "hi"},
        {
            "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [{"type": "text", "text": "Hi!", "citations": None}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 2095, "output_tokens": 503},
        },
    ],
    "system in the middle, unknown things": [
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": "Answer in French from here on."},
        {
            "role": "assistant",
            "content": [{"type": "hologram", "data": {"x": [1, None]}}, {"type": "text", "text": "oui"}],
        },
        {"role": "user", "content": "encore", "shiny": True},
        {"role": "system", "content": [{"type": "text", "text": "Now in German."}]},
    ],
}

OPENAI: dict[str, Conversation] = {
    "roles and names": [
        {"role": "developer", "content": "You are helpful."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": "Hello!", "name": "ada"},
        {"role": "assistant", "content": "Hi.", "name": "bot"},
        {"role": "developer", "content": [{"type": "text", "text": "Now be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "So."}, {"type": "text", "text": "There."}]},
    ],
    "parallel calls": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}},
                {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
                {"id": "call_3", "type": "function", "function": {"name": "noop", "arguments": "{}"}},
                {
                    "id": "call_4",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{\n  "city": "K\\u00f6ln",\n  "n": 1.50\n}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "15"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "20"}]},
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
        {"role": "tool", "tool_call_id": "call_4", "content": "cold", "name": "weather"},
        {"role": "assistant", "content": "15, 20 and cold."},
    ],
    "a whole response": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Hello!",
            "refusal": None,
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": None,
        },
    ],
    "content beside calls": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {
            "role": "assistant",
            "content": "Once more.",
            "reasoning_content": "I should call it again.",
            "tool_calls": [{"id": "c3", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c3", "content": "3"},
    ],
    "media": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
                {"type": "file", "file": {"file_id": "file-6F2ksmvXxt4VdoqmHRw6kL"}},
            ],
        },
        {"role": "assistant", "content": "A picture.", "audio": {"id": "audio_abc123"}},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "audio": {"id": "audio_abc124"}},
    ],
    "refusals": [
        {"role": "user", "content": "something bad"},
        {"role": "assistant", "content": None, "refusal": "I can't help with that."},
        {"role": "user", "content": "really?"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "Really."}]},
    ],
    "custom tools": [
        {"role": "user", "content": "patch it"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_9", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch\n…"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_9", "content": "ok"},
    ],
    "functions of old": [
        {"role": "user", "content": "Boston?"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "weather", "arguments": '{ "location": "Boston, MA"}'},
        },
        {"role": "function", "name": "weather", "content": "22"},
        {"role": "assistant", "content": "22 degrees."},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "function_call": {"name": "weather", "arguments": "{}"}},
        {"role": "function", "name": "weather", "content": None},
    ],
    "unknown things": [
        {
            "role": "user",
            "content": [{"type": "smell", "smell": {"of": "rain"}}, {"type": "text", "text": "x", "n": 1}],
        },
        {
            "role": "assistant",
            "content": "y",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "abc"}],
            "provider": "somebody",
            "raw": {"role": "user"},
        },
    ],
}

RESPONSES: dict[str, Conversation] = {
    "messages": [
        {"role": "developer", "content": "Talk like a pirate."},
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "there"}]},
        {
            "id": "msg_67ccd3acc8d48190a77525dc6de64b4104becb25c45c1d41",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "The image depicts a scenic landscape.",
                    "annotations": [
                        {"type": "url_citation", "start_index": 0, "end_index": 3, "url": "u", "title": "t"}
                    ],
                    "logprobs": [],
                },
                {"type": "output_text", "text": "More.", "annotations": []},
            ],
            "phase": "final_answer",
        },
        {"role": "assistant", "content": "Arr."},
        {
            "id": "msg_2",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "No."}],
        },
        {"role": "system", "content": [{"type": "input_text", "text": "Stop that."}]},
    ],
    "functions": [
        {"role": "user", "content": "What is the weather like in Paris today?"},
        {
            "id": "rs_6820f383d7c08191846711c5df8233bc0ac5ba57aafcbac7",
            "type": "reasoning",
            "summary": [],
            "encrypted_content": "gAAAAABoISQ24OyVRYbkYfukdJoqdzWT-3uiErKInHDC",
            "status": None,
        },
        {
            "id": "fc_67ca09c6bedc8190a7abfec07b1a1332096610f474011cc0",
            "type": "function_call",
            "status": "completed",
            "arguments": '{"location":"Paris, France"}',
            "call_id": "call_unLAR8MvFNptuiZK6K6HCy5k",
            "name": "get_weather",
        },
        {"type": "function_call", "arguments": '{"location": "Rome"}', "call_id": "call_2", "name": "get_weather"},
        {"type": "function_call_output", "call_id": "call_2", "output": "20"},
        {
            "type": "function_call_output",
            "call_id": "call_unLAR8MvFNptuiZK6K6HCy5k",
            "output": [
                {"type": "input_text", "text": "15"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"},
            ],
            "status": "completed",
            "id": "fco_1",
        },
        {
            "id": "rs_2",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "**One**"}, {"type": "summary_text", "text": "**Two**"}],
            "content": [{"type": "reasoning_text", "text": "thinking"}],
        },
        {"id": "rs_3", "type": "reasoning", "summary": [{"type": "summary_text", "text": "**Three**"}]},
        {
            "id": "msg_1",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "15 and 20.", "annotations": []}],
        },
    ],
    "results late": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "arguments": "{}", "call_id": "a", "name": "f"},
        {"role": "assistant", "content": "Started."},
        {"type": "function_call", "arguments": "{}", "call_id": "b", "name": "f"},
        {"role": "user", "content": "Still there?"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"role": "assistant", "content": "Done."},
    ],
    "custom tools": [
        {"role": "user", "content": "run it"},
        {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_c", "name": "code_exec", "input": 'print("hi")'},
        {"type": "custom_tool_call_output", "call_id": "call_c", "output": "hi"},
    ],
    "computer, shell and patches": [
        {"role": "user", "content": "Check the news."},
        {
            "id": "cu_67cc",
            "type": "computer_call",
            "call_id": "call_zw3",
            "action": {"type": "click", "button": "left", "x": 156, "y": 50},
            "pending_safety_checks": [{"id": "cu_sc", "code": "malicious_instructions", "message": "look out"}],
            "status": "completed",
        },
        {
            "type": "computer_call_output",
            "call_id": "call_zw3",
            "acknowledged_safety_checks": [{"id": "cu_sc", "code": "malicious_instructions", "message": "look out"}],
            "output": {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"},
        },
        {
            "id": "lsh_1",
            "type": "local_shell_call",
            "call_id": "call_sh",
            "action": {"type": "exec", "command": ["ls", "-l"], "env": {}},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "call_sh", "output": '{"stdout":"a"}'},
        {
            "type": "shell_call",
            "call_id": "call_s2",
            "action": {"commands": ["pwd"], "timeout_ms": 1000},
            "status": "completed",
            "id": "sh_1",
        },
        {
            "type": "shell_call_output",
            "call_id": "call_s2",
            "max_output_length": 4096,
            "output": [{"stdout": "/é", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        {
            "type": "apply_patch_call",
            "id": "apc_1",
            "call_id": "call_p",
            "status": "completed",
            "operation": {"type": "create_file", "path": "a.py", "diff": "+x"},
        },
        {"type": "apply_patch_call_output", "call_id": "call_p", "status": "failed", "output": "no such file"},
        {
            "type": "apply_patch_call",
            "call_id": "call_q",
            "status": "completed",
            "operation": {"type": "delete_file", "path": "a.py"},
        },
        {"type": "apply_patch_call_output", "call_id": "call_q", "status": "completed"},
    ],
    "what the API does itself": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
                {"type": "input_image", "file_id": "file-img", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                {"type": "input_file", "file_id": "file-pdf"},
            ],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": None},
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1+1",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "2"}],
            "status": "completed",
        },
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [{"name": "t", "input_schema": {}}]},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "t", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        {"type": "mcp_call", "id": "mcp_1", "name": "t", "arguments": "{}", "server_label": "s", "output": "ok"},
        {"type": "item_reference", "id": "msg_9"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "abc"},
        {"type": "quantum_call", "id": "q_1", "state": ["up", "down"]},
        {"role": "assistant", "content": "Done."},
    ],
}

GEMINI: dict[str, Conversation] = {
    "text": [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"text": "Great to meet you."}, {"text": "What would you like?"}]},
        {"role": "user", "parts": [{"text": "Two dogs."}]},
    ],
    "no role": [{"parts": [{"text": "Explain how AI works"}]}],
    "calls without ids": [
        {"role": "user", "parts": [{"text": "Turn this place into a party!"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Sure."},
                {"functionCall": {"name": "disco", "args": {"power": True}}},
                {"functionCall": {"name": "music", "args": {"loud": 1.5}}},
                {"functionCall": {"name": "disco", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "disco", "response": {"result": "ok"}}},
                {"functionResponse": {"name": "disco", "response": {"error": "broken"}}},
                {"functionResponse": {"name": "music", "response": {"output": "playing", "volume": 3}}},
            ],
        },
        {"role": "model", "parts": [{"text": "Party!"}]},
        {"role": "user", "parts": [{"text": "Again."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "disco"}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "disco", "response": {}}}]},
    ],
    "thoughts and signatures": [
        {"role": "user", "parts": [{"text": "Check flight AA100."}]},
        {
            "role": "model",
            "parts": [
                {"text": "**Considering the flight**", "thought": True},
                {
                    "functionCall": {"id": "fc-1", "name": "check_flight", "args": {"flight": "AA100"}},
                    "thoughtSignature": "EsUDCsIDAR/X1Q==",
                },
                {"functionCall": {"id": "fc-2", "name": "check_flight", "args": {"flight": "AA101"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "fc-2", "name": "check_flight", "response": {"output": "delayed"}}},
                {"functionResponse": {"id": "fc-1", "name": "check_flight", "response": {"status": ["late", 2]}}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "It is late.", "thoughtSignature": "EsUDCsIDAR/X2Q=="},
                {"text": "", "thoughtSignature": "EsUDCsIDAR/X3Q=="},
            ],
        },
    ],
    "media and code": [
        {
            "role": "user",
            "parts": [
                {
                    "inlineData": {"mimeType": "image/png", "data": PNG},
                    "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
                },
                {"inlineData": {"mimeType": "audio/wav", "data": WAV, "displayName": "a.wav"}},
                {
                    "fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/x"},
                    "videoMetadata": {"startOffset": "1s", "fps": 2},
                },
                {"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}},
                {"text": "Sum the first 50 primes."},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "print(5117)"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "5117\n"}},
                {"text": "5117."},
                {"inlineData": {"mimeType": "image/png", "data": PNG}},
            ],
        },
    ],
    "snake case": [
        {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": PNG}}, {"text": "x"}]},
        {
            "role": "model",
            "parts": [
                {"function_call": {"name": "snake_case", "args": {"my_arg": {"a_b": 1}}}, "thought_signature": "AAAA"},
            ],
        },
        {
            "role": "user",
            "parts": [{"function_response": {"name": "snake_case", "response": {"a_b": [{"c_d": 1}]}}}],
        },
        {"role": "model", "parts": [{"text": "t", "thought": True, "thought_signature": "AAAA"}, {"text": "done"}]},
        {"role": "user", "parts": [{"file_data": {"fileUri": "https://e.com/a", "mime_type": "image/png"}}]},
    ],
    "streamed in pieces, answered with pictures, unknown things": [
        {"role": "user", "parts": [{"text": "show me"}]},
        {"role": "model", "parts": [{"text": "Let me "}]},
        {"role": "model", "parts": [{"text": "look."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "AAAA"}]},
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "look",
                        "response": {"image": {"$ref": "a.png"}},
                        "parts": [{"inlineData": {"mimeType": "image/png", "displayName": "a.png", "data": PNG}}],
                        "willContinue": False,
                    }
                }
            ],
        },
        {
            "role": "model",
            "parts": [{"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH", "args": {}}}, {"text": "x", "new": 1}],
            "finish": "?",
        },
    ],
}

THREADLINE: dict[str, Conversation] = {
    "everything": [
        {"role": "user", "parts": [{"type": "text", "text": "hi"}], "meta": {"proactive": True}},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "text": "hm", "signature": "s", "extra": {"provider": "anthropic"}},
                {"type": "call", "id": "a", "name": "f", "args": {"n": 1}},
                {"type": "call", "id": "b", "name": "f", "args": "{broken"},
            ],
        },
        {
            "role": "tool",
            "parts": [
                {
                    "type": "result",
                    "call_id": "a",
                    "output": [{"type": "media", "mime": "image/png", "data": PNG, "name": "a.png"}],
                    "error": True,
                    "display": "a picture",
                },
                {"type": "result", "call_id": "b", "output": "text"},
            ],
        },
        {"role": "system", "parts": [{"type": "other", "raw": {"type": "x"}, "extra": {"provider": "gemini"}}]},
        {"role": "user", "parts": []},
    ],
}

FIXTURES: dict[str, dict[str, Conversation]] = {
    "threadline": THREADLINE,
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "responses": RESPONSES,
    "gemini": GEMINI,
}
PROVIDERS = ("anthropic", "openai", "responses", "gemini")
CASES = [(format, name) for format, cases in FIXTURES.items() for name in cases]
