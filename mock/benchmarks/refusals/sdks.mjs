// One request by a JavaScript SDK: node sdks.mjs SDK URL STREAM FOLDER. Prints the error that it raises.
import { createRequire } from "node:module";

const [, , sdk, url, stream, folder] = process.argv;
const require = createRequire(`${folder}/`);
const messages = [{ role: "user", content: "say hi" }];
const streams = stream === "yes";

async function drain(found) {
  if (streams) for await (const _ of found);
}

const asks = {
  async anthropic() {
    const { default: Anthropic } = require("@anthropic-ai/sdk");
    const client = new Anthropic({ apiKey: "k", baseURL: url });
    await drain(await client.messages.create({ model: "m", max_tokens: 9, messages, stream: streams }));
  },
  async openai() {
    const { default: OpenAI } = require("openai");
    const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1` });
    await drain(await client.chat.completions.create({ model: "m", messages, stream: streams }));
  },
  async responses() {
    const { default: OpenAI } = require("openai");
    const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1` });
    await drain(await client.responses.create({ model: "m", input: "say hi", stream: streams }));
  },
  async google() {
    const { GoogleGenAI } = require("@google/genai");
    const { models } = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: url } });
    const asked = { model: "gemini-2.5-flash", contents: "say hi" };
    await drain(await (streams ? models.generateContentStream(asked) : models.generateContent(asked)));
  },
  vercel: (model) => async () => {
    const { generateText, streamText } = require("ai");
    if (!streams) return void (await generateText({ model: model(), prompt: "say hi" }));
    for await (const part of streamText({ model: model(), prompt: "say hi", onError() {} }).fullStream)
      if (part.type === "error") throw part.error;
  },
};
asks["vercel-anthropic"] = asks.vercel(() =>
  require("@ai-sdk/anthropic").createAnthropic({ apiKey: "k", baseURL: url })("claude-sonnet-4-5"),
);
asks["vercel-openai"] = asks.vercel(() =>
  require("@ai-sdk/openai").createOpenAI({ apiKey: "k", baseURL: `${url}/v1` })("gpt-5"),
);

try {
  await asks[sdk]();
} catch (error) {
  console.log(error?.message ?? JSON.stringify(error), JSON.stringify(error));
  process.exitCode = 1;
}
