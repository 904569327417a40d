"""Databricks' model serving."""

from hivemind.providers.table import Meaning, Path, Provider, Refusal

PROVIDER = Provider(
    name="databricks",
    hosts=(".cloud.databricks.com", ".azuredatabricks.net", ".gcp.databricks.com"),
    headers=("x-databricks-",),
    refusals=(
        Refusal(
            meaning=Meaning.THROTTLED,
            code="request_limit_exceeded",
            example=(
                '{"error_code":"REQUEST_LIMIT_EXCEEDED","message":"REQUEST_LIMIT_EXCEEDED: Exceeded workspace '
                'output tokens per minute rate limit for databricks-claude-sonnet-4."}'
            ),
            source="https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/limits",
            seen="2026-06",
        ),
    ),
    paths=(
        Path(
            path=r"/serving-endpoints/(?P<model>[^/]+)/invocations",
            dialect="openai_chat",
            example="/serving-endpoints/databricks-claude-sonnet-4-5/invocations",
            model="databricks-claude-sonnet-4-5",
            source="https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference",
            seen="2026-09",
        ),
    ),
)
