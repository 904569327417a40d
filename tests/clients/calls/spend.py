"""What OpenAI's and Anthropic's SDKs call that is paid beside chat, in turn until one is refused:
`python spend.py BASE_URL`. Prints the status of the refusal."""

import itertools
import sys

import anthropic
import openai

BASE = sys.argv[1]
OPENAI = openai.OpenAI(api_key="sk-1", base_url=f"{BASE}/v1", max_retries=0)
ANTHROPIC = anthropic.Anthropic(api_key="sk-2", base_url=BASE, max_retries=0)
ASK = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def background():
    response = OPENAI.responses.create(model="gpt-5.4", input="hi", background=True)
    while response.status != "completed":
        response = OPENAI.responses.retrieve(response.id)
    OPENAI.responses.retrieve(response.id)


def streamed():
    *_, last = OPENAI.responses.create(model="gpt-5.4", input="hi", background=True, stream=True)
    OPENAI.responses.retrieve(last.response.id)


def batch():
    made = ANTHROPIC.messages.batches.create(requests=[{"custom_id": "1", "params": ASK}])
    for _ in range(2):
        list(ANTHROPIC.messages.batches.results(made.id))


def advised():
    ANTHROPIC.messages.create(**ASK)


for call in itertools.cycle((background, streamed, batch, advised)):
    try:
        call()
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        print(error.status_code)
        break
