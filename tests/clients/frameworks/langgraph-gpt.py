from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

graph = StateGraph(MessagesState)
for name in ("writer", "critic", "editor"):
    model = ChatOpenAI(model="gpt-5.4", default_headers={"x-hivemind-agent": name})
    graph.add_node(name, lambda state, model=model: {"messages": [model.invoke(state["messages"])]})
graph.add_edge(START, "writer")
graph.add_edge(START, "critic")
graph.add_edge(["writer", "critic"], "editor")
graph.add_edge("editor", END)
print(graph.compile().invoke({"messages": [("user", "Go.")]})["messages"][-1].content)
