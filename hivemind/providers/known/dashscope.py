"""Alibaba Cloud's Model Studio (DashScope): Qwen."""

from functools import partial

from hivemind.providers.table import Meaning, Path, Provider, Refusal

_THROTTLED = partial(
    Refusal, meaning=Meaning.THROTTLED, source="https://help.aliyun.com/zh/model-studio/error-code", seen="2026-11"
)

PROVIDER = Provider(
    name="dashscope",
    hosts=("dashscope.aliyuncs.com", ".dashscope.aliyuncs.com", ".maas.aliyuncs.com"),
    headers=("x-dashscope-",),
    errors=r"aliyun\.com|alibabacloud\.com",
    zone_h=8,
    refusals=(
        _THROTTLED(
            code="insufficient_quota",
            text=r"aliyun\.com|alibabacloud\.com",
            example=(
                '{"error":{"message":"You exceeded your current quota, please check your plan and billing '
                "details. For more information on this error, read the docs: https://help.aliyun.com/zh/model-st"
                'udio/error-code#token-limit","type":"insufficient_quota","param":null,"code":"insufficient_quot'
                'a"},"id":"x"}'
            ),
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            code="allocationquota.freetieronly",
            status=403,
            example=(
                '{"code":"AllocationQuota.FreeTierOnly","message":"The free tier of the model has been '
                "exhausted. If you wish to continue access the model on a paid basis, please disable the use "
                'free tier only mode."}'
            ),
            source="https://help.aliyun.com/zh/model-studio/error-code",
            seen="2026-03",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text=r"\b(?:free|hour|week|month) allocated quota exceeded",
            example='{"error":{"message":"hour allocated quota exceeded.","type":"throttling","code":"throttling"}}',
            source="https://www.alibabacloud.com/help/en/model-studio/coding-plan-faq; qwen-code, issue 1742",
            seen="2026-10",
        ),
        _THROTTLED(
            text="allocated quota exceeded",
            example=(
                '{"code":"Throttling.AllocationQuota","message":"Allocated quota exceeded, please increase your '
                'quota limit."}'
            ),
        ),
        _THROTTLED(
            code="throttling.ratequota",
            example=(
                '{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later."}'
            ),
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            code="arrearage",
            status=400,
            example=(
                '{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}'
            ),
            source="https://help.aliyun.com/zh/model-studio/error-code",
            seen="2026-11",
        ),
    ),
    paths=(
        Path(
            path=r"/services/aigc/(?:text|multimodal)-generation/generation",
            dialect="stateless",
            example="/api/v1/services/aigc/text-generation/generation",
            source="dashscope 2.0.2, against a recording server",
            seen="2026-11",
        ),
    ),
)
