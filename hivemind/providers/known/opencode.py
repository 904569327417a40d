"""opencode Zen."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="opencode",
    hosts=("opencode.ai",),
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="creditserror",
            status=401,
            example=(
                '{"type":"error","error":{"type":"CreditsError","message":"No payment method. Add a payment method '
                'here: https://opencode.ai/workspace/wrk_01/billing"}}'
            ),
            source="https://github.com/anomalyco/opencode/issues/37161",
            seen="2026-07",
        ),
    ),
)
