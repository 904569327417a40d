"""vLLM, SGLang and what is built on them."""

from hivemind.providers.table import Failing, Load, Meaning, Provider, Refusal, Sign

PROVIDER = Provider(
    name="vllm",
    headers=("x-vllm-",),
    refusals=(
        Refusal(
            meaning=Meaning.FULL,
            text="engine is overloaded",
            status=503,
            example=(
                '{"object":"error","message":"The engine is overloaded, the request queue is '
                'full","type":"ServiceUnavailableError","param":null,"code":503}'
            ),
            source="https://github.com/vllm-project/vllm/issues",
            seen="2026-05",
        ),
        Refusal(
            meaning=Meaning.FULL,
            text="queue is full",
            status=503,
            example='{"object":"error","message":"The request queue is full.","type":"AbortRequest","code":503}',
            source="https://github.com/sgl-project/sglang, scheduler.py",
            seen="2026-05",
        ),
    ),
    signs=(
        Sign(
            path="/v1/models",
            text=r'"owned_by":\s*"(?:vllm|sglang)"',
            example=(
                '{"object":"list","data":[{"id":"tiny","object":"model","created":1795900000,"owned_by":"vllm",'
                '"root":"tiny","parent":null,"max_model_len":32768}]}'
            ),
            source="https://github.com/vllm-project/vllm, entrypoints/openai",
            seen="2026-11",
        ),
        Sign(
            path="/metrics",
            text=r"^(?:# HELP )?(?:vllm|sglang):\w",
            example='vllm:num_requests_running{engine="0",model_name="tiny"} 2.0',
            source="https://docs.vllm.ai/en/latest/usage/metrics",
            seen="2026-11",
        ),
    ),
    loads=(
        Load(
            path="/metrics",
            text=r"(?m)^(?:vllm:num_requests_(?:running|waiting)|sglang:num_(?:running|queue)_reqs)(?:\{.*\})? (\d+)",
            example=(
                'vllm:num_requests_running{engine="0",model_name="tiny"} 2.0\n'
                'vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0\n'
                'vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 3.0\n'
            ),
            requests=5,
            source="https://docs.vllm.ai/en/latest/usage/metrics; https://docs.sglang.ai/references/production_metrics",
            seen="2026-11",
        ),
    ),
    failing=(
        Failing(
            example=(
                'data: {"object":"error","message":"engine is dead","type":"InternalServerError","param":null,'
                '"code":500}'
            ),
            status=500,
            source="guidellm, issue 743",
            seen="2026-06",
        ),
        Failing(
            example='data: {"detail":"EngineCore encountered an issue"}',
            status=500,
            source="SHTUCodeProxy, pull request 4",
            seen="2026-06",
        ),
        Failing(
            example='data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}',
            source="https://github.com/vllm-project/vllm, v1/engine (FinishReason)",
            seen="2026-09",
        ),
    ),
)
