"""One request by a Python SDK: `python -m benchmarks.refusals.sdks SDK URL STREAM`. Prints the error that it raises."""

from __future__ import annotations

import sys

import anthropic
import openai


def ask(sdk: str, url: str, *, stream: bool) -> None:
    """Ask once, as the SDK comes."""
    if sdk == "anthropic":
        claude = anthropic.Anthropic(api_key="k", base_url=url)
        if stream:
            with claude.messages.stream(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "say hi"}]
            ) as answer:
                answer.until_done()
        else:
            claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "say hi"}])
    elif sdk == "openai":
        gpt = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
        if stream:
            list(gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "say hi"}], stream=True))
        else:
            gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "say hi"}])
    else:
        gpt = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
        if stream:
            list(gpt.responses.create(model="m", input="say hi", stream=True))
        else:
            gpt.responses.create(model="m", input="say hi")


if __name__ == "__main__":
    try:
        ask(sys.argv[1], sys.argv[2], stream=sys.argv[3] == "yes")
    except (anthropic.APIError, openai.APIError) as error:
        sys.exit(str(error))
