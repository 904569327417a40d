"""The server's instructions to agents: how to share one rate-limited API."""

from __future__ import annotations

INSTRUCTIONS = """\
HiveMind is the proxy that this machine's agents send their LLM requests through. It queues, retries and paces them, so\
 that many agents share one rate limit. These tools let you see how much room there is, and plan within it.

Before you fan out (start sub-agents, or many requests at once), call hm.status: headroom.agents_now says how many more\
 agents can work at once now, headroom.advice why. Start no more than that; the others would only wait, and an agent\
 that waits does nothing for you. Call it again after each step rather than starting everything at the beginning. If\
 there is no room, go on alone or ask again in a minute. Check hm.budget too: what you start may be charged to your own\
 budget (covers subtree) and always is to the pool's; headroom.budget_tokens_left is what the tightest of them leaves.

A slow answer means that you wait in the queue; you needn't send it again, and neither need you retry errors, the proxy\
 does. A 403 whose text begins with HiveMind is a decision, not a fault: a budget is used up, an operator stopped the\
 agent, or its task can't start. Trying again can't help. Report where you stand, and ask whoever you work for to raise\
 the budget (hm.budget, or the control room) or to let the agent go on; it can then continue where it was.

Tasks: hm.batch adds a graph of tasks, all or none; after names what must be done before. A task is waiting, ready,\
 running, then done, failed, cancelled or skipped; if one fails, those that wait for it are blocked until it is tried\
 again (hm.submit with outcome retry). Tasks with a command are started by a runner (hivemind batch). Without one, the\
 agent that the task names works on it, its requests are held until the task is ready, and whoever did the work\
 reports it: hm.submit with outcome done or failed. Tasks that others wait for inherit their priority.

The tools may be listed as hm.status or hm_status; both names work. hm.priority, hm.budget and hm.config change the\
 proxy for everyone: use them when you were asked to. If they are read-only, they say so."""
