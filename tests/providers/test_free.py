"""What needs no ticket."""

from __future__ import annotations

import pytest

from hivemind.providers.paths import is_free

FREE_POSTS = [
    *("/v1/messages/count_tokens", "/v1/messages/count_tokens/", "/gateway/v1/messages/count_tokens"),
    *("/v1/messages/batches/b_1/cancel", "/v1/responses/input_tokens", "/openai/v1/responses/resp_1/cancel"),
    *("/v1/files", "/openai/files", "/files", "/upload/v1beta/files", "/v1/uploads", "/v1/uploads/u_1/parts"),
    *("/v1/skills/s_1/versions", "/v1/batches/b_1/cancel", "/v1beta/batches/b_1:cancel"),
    *("/v1/threads/t_1/runs/r_1/cancel", "/v1beta/models/gemini-2.5-flash:countTokens"),
    *("/v1/projects/p/locations/l/publishers/google/models/m:computeTokens", "/tokenize", "/v1/tokenize"),
    *("/v1/conversations", "/v1/conversations/c_1/items", "/v1/vector_stores", "/v1/vector_stores/v_1/search"),
    *("/v1/vector_stores/v_1/files", "/v1/vector_stores/v_1/file_batches/b/cancel", "/v1/realtime/client_secrets"),
    *("/v1/memory_stores", "/v1/memory_stores/m_1/memories", "/v1beta/cachedContents", "/v1/moderations"),
    *("/v1/threads", "/v1/threads/t_1", "/v1/threads/t_1/messages", "/v1/threads/t_1/runs/r_1", "/v1/assistants/a_1"),
    *("/v1/containers", "/v1/containers/c_1/files", "/v1/evals", "/v1/webhook_endpoints", "/v1/chatkit/sessions"),
    *("/v1/chat/completions/c_1", "/v1/skills/s_1", "/v1/realtime/calls/c_1/hangup", "/v1/fine_tuning/jobs/j/pause"),
    *("/v1/agents", "/v1/agents/a_1/archive", "/v1/environments", "/v1/vaults", "/v1beta/fileSearchStores"),
    *("/upload/v1beta/fileSearchStores/s:uploadToFileSearchStore", "/v1/chatkit/sessions/s/cancel"),
    *("/v1/agents/a_1", "/v1/agents/automations", "/v1/agents/automations/a/pause", "/v1/agents/environments/e/files"),
    *("/v1/deployments", "/v1/deployments/d", "/v1/deployments/d/pause", "/v1/environments/e/work/w/ack"),
    *("/v1/sessions/s", "/v1/sessions/s/resources/r", "/v1/sessions/s/threads/t/archive", "/v1/vaults/v/credentials/c"),
    *("/v1/tunnels/t/certificates", "/v1/user_profiles/u/enrollment_url", "/v1/dreams/d/cancel", "/v1/audio/voices"),
    *("/v1/fine_tuning/alpha/graders/validate", "/v1/batch/jobs/j/cancel", "/v1/memory_stores/m/memories/m_1"),
    *("/v1/projects/p/locations/l/batchPredictionJobs/7:cancel", "/v1beta1/projects/p/locations/l/cachedContents"),
    *("/v1beta/files:register", "/v1beta/fileSearchStores/s:importFile", "/v1/files/upload"),
    *("/api/show", "/api/pull", "/api/blobs/sha256:00ff"),
]
PAID_POSTS = [
    *("/v1/messages", "/v1/messages/batches", "/v1/complete", "/v1/images/generations", "/v1/images/edits"),
    *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/threads/runs", "/v1/threads/t_1/runs"),
    *("/v1/threads/t_1/runs/r_1/submit_tool_outputs", "/v1/batches", "/v1/fine_tuning/jobs"),
    *("/v1/threads/runs/", "/v1/evals/e_1/runs", "/v1/realtime/calls", "/v1/realtime/calls/c_1/accept", "/v1/videos"),
    *("/v1/agents/completions", "/v1/agents/sessions", "/v1/sessions/s_1/events", "/v1/deployments/d/run"),
    *("/v1/agents/automations/a/invocations", "/v1/agents/sessions/s/events", "/v1/sessions", "/v1/batch/jobs"),
    *("/v1/batchPredictionJobs", "/v1/chat/completions/", "/v1/dreams", "/v1/fine_tuning/alpha/graders/run"),
    *("/v1beta/models/m:batchGenerateContent", "/v1beta/models/imagen-4:predict", "/v1/conversations/c/x"),
    *("/V1/MESSAGES/COUNT_TOKENS", "/v1/messages%2Fcount_tokens"),
    *("/v1/messages;/count_tokens", "/v1/messages%3f/v1/files", "/v1/messages/%63ount_tokens"),
    *("/x" * 300 + "/v1/files", "/v1/messages/count_tokens/v1/messages", "/v1/files/f_1/summary"),
    *("/api/chat", "/", ""),
]


@pytest.mark.parametrize("path", FREE_POSTS)
def test_known_to_be_free(path: str) -> None:
    """Token counts, uploads, creations that no model works on, ends of what was begun, and Ollama's own models."""
    assert is_free("POST", path.encode(), b"{}")
    assert not is_free("PUT", path.encode(), b"{}")
    assert not is_free("PATCH", path.encode(), b"{}")


@pytest.mark.parametrize("path", PAID_POSTS)
def test_everything_else_may_cost(path: str) -> None:
    """So does what is written in another way than it is known by, and what nobody knows."""
    assert not is_free("POST", path.encode(), b"{}")
    assert not is_free("POST", path.encode(), b"")
    assert not is_free("PATCH", path.encode(), b"{}")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_methods_that_generate_nothing(method: str) -> None:
    """They list, look up and remove; with a body nobody knows what they do."""
    assert is_free(method, b"/v1/messages/batches/b_1/results", b"")
    assert not is_free(method, b"/v1/messages", b"{}")
    assert is_free("PATCH", b"/v1beta/cachedContents/c", b"{}")  # how long it is kept
