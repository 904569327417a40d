"""Google's Gemini API (AI Studio), Vertex AI and Code Assist."""

from hivemind.providers.table import Meaning, Path, Provider, Refusal

PROVIDER = Provider(
    name="google",
    hosts=(
        "generativelanguage.googleapis.com",
        "aiplatform.googleapis.com",
        ".aiplatform.googleapis.com",
        "cloudcode-pa.googleapis.com",
    ),
    errors=r"type\.googleapis\.com",
    refusals=(
        Refusal(
            meaning=Meaning.FORBIDDEN,
            code="resource_exhausted",
            text="per_?day|daily",
            example=(
                '{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and '
                'billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google'
                '.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"'
                '}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}'
            ),
            source="https://github.com/google-gemini/gemini-cli, googleQuotaErrors.ts",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            code="quota_exhausted",
            example=(
                '{"error":{"code":429,"message":"You have exhausted your capacity on this model. Your quota will'
                ' reset after 3h20m5s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/g'
                'oogle.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED","metadata":{"quotaResetDelay":"12005s"}}]}}'
            ),
            source="https://github.com/liuw1535/antigravity2api-nodejs/issues/44",
            seen="2025-12",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text=r"resource (?:has been )?exhausted\b",
            example=(
                '{"error":{"code":429,"message":"Resource has been exhausted (e.g. check '
                'quota).","status":"RESOURCE_EXHAUSTED"}}'
            ),
            source="https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text=r"quota exceeded for aiplatform\.googleapis\.com",
            example=(
                '{"error":{"code":429,"message":"Quota exceeded for '
                "aiplatform.googleapis.com/online_prediction_requests_per_base_model with base model: "
                'claude-opus-4-8. Please submit a quota increase request.","status":"RESOURCE_EXHAUSTED"}}'
            ),
            source="https://cloud.google.com/vertex-ai/generative-ai/docs/quotas",
            seen="2026-06",
        ),
    ),
    paths=(
        Path(
            path=r"/publishers/anthropic/models/count-tokens:rawPredict",
            example="/v1/projects/p/locations/us-east5/publishers/anthropic/models/count-tokens:rawPredict",
            source="https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/count-tokens",
            seen="2026-09",
        ),
        Path(
            path=r"/publishers/anthropic/models/(?P<model>[^/:]+):(?:stream)?rawPredict",
            dialect="anthropic",
            example="/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
            model="claude-sonnet-4-5@20250929",
            source="https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude",
            seen="2026-09",
        ),
        Path(
            path=r"/publishers/[^/]+/models/(?P<model>[^/:]+):(?:stream)?rawPredict",
            dialect="openai_chat",
            example="/v1/projects/p/locations/us-central1/publishers/mistralai/models/mistral-medium-3:streamRawPredict",
            model="mistral-medium-3",
            source="https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral",
            seen="2026-09",
        ),
        Path(
            path=r"/models/[A-Za-z0-9_.@-]+:fetchPredictOperation",
            example="/v1/projects/p/locations/us-central1/publishers/google/models/veo-3.1-generate-001:fetchPredictOperation",
            source="https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/veo-video-generation",
            seen="2026-11",
        ),
        Path(
            path=r"/v1internal:(?:countTokens|loadCodeAssist|onboardUser|listExperiments|retrieveUserQuota|recordCodeAssistMetrics)",
            example="/v1internal:loadCodeAssist",
            source="https://github.com/google-gemini/gemini-cli, packages/core/src/code_assist/server.ts",
            seen="2026-10",
        ),
        Path(
            path=r"/v1internal:(?:generateContent|streamGenerateContent)",
            dialect="google",
            example="/v1internal:streamGenerateContent",
            source="https://github.com/google-gemini/gemini-cli, packages/core/src/code_assist/server.ts",
            seen="2026-10",
        ),
    ),
)
