"""Azure OpenAI and Azure AI Foundry."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="azure",
    hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
    headers=("apim-request-id", "x-ms-region"),
    errors=r"aka\.ms/oai",
    refusals=(
        Refusal(
            meaning=Meaning.THROTTLED,
            text=r"exceeded (?:the )?(?:\w+ )?rate limit of your current",
            example=(
                '{"error":{"message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API '
                "version 2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. "
                "Please retry after 26 seconds. Please go here: https://aka.ms/oai/quotaincrease if you would "
                'like to further increase the default rate limit.","code":"429"}}'
            ),
            source="https://learn.microsoft.com, azure-openai-429-token-rate-limit",
            seen="2026-05",
        ),
    ),
)
