"""Zhipu (bigmodel.cn) and its international house Z.ai: GLM, with coding plans."""

from functools import partial

from hivemind.providers.table import Failing, Meaning, Provider, Refusal

_USED_UP = partial(Refusal, meaning=Meaning.USED_UP, source="https://docs.z.ai/api-reference/api-code", seen="2026-11")

PROVIDER = Provider(
    name="zhipu",
    hosts=("open.bigmodel.cn", "api.z.ai"),
    errors=r'"code"\s*:\s*"1[123]\d\d"',
    zone_h=8,
    refusals=(
        _USED_UP(
            code="1308",
            example=(
                '{"error":{"message":"Usage limit reached for 5 hour. Your limit will reset at 2026-11-29 '
                '07:41:44","code":"1308"}}'
            ),
        ),
        _USED_UP(
            code="1309", example='{"error":{"message":"您的GLM Coding Plan套餐已到期，暂无法使用","code":"1309"}}'
        ),
        _USED_UP(
            code="1310",
            example=(
                '{"error":{"message":"Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-12-01 '
                '10:00:00","code":"1310"}}'
            ),
        ),
        _USED_UP(
            code="1113",
            example=(
                '{"error":{"message":"Insufficient balance or no resource package. Please recharge.","code":"1113"}}'
            ),
        ),
        _USED_UP(code="1304", example='{"error":{"message":"已达到今日该接口的调用次数上限","code":"1304"}}'),
        Refusal(
            meaning=Meaning.FORBIDDEN,
            code="1311",
            example='{"error":{"message":"当前订阅套餐暂未开放glm-5权限","code":"1311"}}',
            source="https://docs.bigmodel.cn/cn/api/api-code",
            seen="2026-11",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="1302",
            example='{"error":{"message":"您的账户已达到速率限制，请您控制请求频率","code":"1302"}}',
            source="https://github.com/zai-org/GLM-4/issues/802",
            seen="2026-01",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="1303",
            example='{"error":{"message":"您当前使用该API的频率过高，请降低频率","code":"1303"}}',
            source="https://docs.z.ai/api-reference/api-code",
            seen="2026-11",
        ),
        Refusal(
            meaning=Meaning.FULL,
            code="1305",
            example='{"error":{"message":"The service may be temporarily overloaded, please try again","code":"1305"}}',
            source="https://github.com/NousResearch/hermes-agent/issues/14038",
            seen="2026-08",
        ),
        Refusal(
            meaning=Meaning.FULL,
            code="1312",
            example='{"error":{"message":"该模型当前访问量过大，请您稍后再试","code":"1312"}}',
            source="https://docs.z.ai/api-reference/api-code",
            seen="2026-11",
        ),
    ),
    failing=(
        Failing(
            example='data: {"id":"c","choices":[{"index":0,"delta":{"content":""},"finish_reason":"network_error"}]}',
            source="https://github.com/NousResearch/hermes-agent/pull/92161",
            seen="2026-08",
        ),
        Failing(
            example='{"id":"","object":"","created":0,"model":"","choices":null,"usage":null}',
            stream=False,
            status=None,
            source="https://github.com/zai-org/GLM-5/issues/91",
            seen="2026-06",
        ),
    ),
)
