"""Azure OpenAI and Azure AI Foundry."""

from hivemind.providers.table import Provider

PROVIDER = Provider(
    name="azure",
    hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
    headers=("apim-request-id", "x-ms-region"),
    errors=r"aka\.ms/oai",
)
