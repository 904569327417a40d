from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

for name in ("writer", "critic"):
    model = ChatOpenAI(model="gpt-5.4", stream_usage=True, default_headers={"x-hivemind-agent": name})
    for chunk in (ChatPromptTemplate.from_template("Go, {who}.") | model).stream({"who": name}):
        print(chunk.text, end="")
    print()
