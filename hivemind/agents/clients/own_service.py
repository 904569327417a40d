"""Clients with a service of their own: of some, models of the user's own key can be pointed, of others none.

https://docs.github.com/en/copilot/how-tos/copilot-cli, `11-custom-models.md` in ~/.grok/docs (1.0),
https://moonshotai.github.io/kimi-code (2.1), https://docs.factory.ai/cli/byok (0.225), https://ampcode.com/manual,
https://cursor.com/docs/cli, https://docs.augmentcode.com/cli, https://docs.qoder.com/cli, https://www.codebuff.com/docs
"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import set_values, value_of
from hivemind.agents.clients.facts import Call, Client, at, home, listed, read_json, read_toml
from hivemind.setup.routes import COPILOT_MODEL, GROK_KEY, GROK_URL

_MODEL = ("-m", "--model")
_COPILOT, _URL, _KEY = (f"COPILOT_PROVIDER_{each}" for each in ("TYPE", "BASE_URL", "API_KEY"))


def _copilot(call: Call) -> None:
    environ = call.environ
    kind = environ.get(_COPILOT) or ("anthropic" if environ.get("ANTHROPIC_API_KEY") else "")
    if kind == "anthropic":
        environ[_COPILOT] = kind
        environ[_URL] = call.base
        environ[_KEY] = environ.get(_KEY) or environ.get("ANTHROPIC_API_KEY", "")
        environ["COPILOT_MODEL"] = environ.get("COPILOT_MODEL") or COPILOT_MODEL
    elif kind == "openai" or environ.get(_URL):
        environ[_URL] = f"{call.base}/v1"


def _copilot_past(call: Call) -> str:
    return "" if call.environ.get(_URL) else f"without {_COPILOT} its models are GitHub's (hivemind setup copilot)"


def _grok(call: Call) -> None:
    if call.environ.get(GROK_KEY):
        call.environ[GROK_URL] = f"{call.base}/v1"


def _grok_past(call: Call) -> str:
    return "" if call.environ.get(GROK_KEY) else f"without {GROK_KEY} its login is for a service of its own"


_KIMI, _KIMI_TYPE, _KIMI_URL = (f"KIMI_MODEL_{each}" for each in ("NAME", "PROVIDER_TYPE", "BASE_URL"))
"""These and more describe one model, which it calls `__kimi_env_model__`."""
_KIMI_TOLD = "max_context_size", "max_output_size", "capabilities", "reasoning_key", "adaptive_thinking"
"""Settings of a model that have such variables; where no capabilities are said, it assumes images and thinking."""
_KIMI_SUFFIXES = {"kimi": "/v1", "openai": "/v1", "anthropic": ""}


def _kimi(call: Call) -> None:
    """Point the model that the user's variables describe, and providers without a URL of their own."""
    call.environ["KIMI_BASE_URL"] = f"{call.base}/v1"
    if call.environ.get(_KIMI):
        call.environ[_KIMI_URL] = call.base + _KIMI_SUFFIXES.get(call.environ.get(_KIMI_TYPE) or "kimi", "/v1")


def _kimi_model(call: Call) -> tuple[dict[str, object], str, dict[str, object]]:
    """Return what its settings say of the model in use, its provider's name, and what they say of that."""
    folder = call.environ.get("KIMI_CODE_HOME") or os.path.join(home(call.environ), ".kimi-code")
    settings = read_toml(folder, "config.toml")
    default = "" if call.environ.get(_KIMI) else settings.get("default_model")
    model = at(settings, "models", value_of(call.arguments, *_MODEL) or str(default))
    provider = str(model.get("provider"))
    return model, provider, at(settings, "providers", provider)


def _kimi_flags(call: Call) -> None:
    """Describe a model of the settings by variables: a URL in the settings overrides that of a variable."""
    model, _, provider = _kimi_model(call)
    told = {"name": model.get("model"), "api_key": provider.get("api_key"), "provider_type": str(provider.get("type"))}
    if all(told.values()) and provider.get("base_url") and told["provider_type"] in _KIMI_SUFFIXES:
        told |= {each: model[each] for each in _KIMI_TOLD if each in model}
        for name, value in told.items():
            values = value if isinstance(value, list) else [value]
            call.environ[f"KIMI_MODEL_{name.upper()}"] = ",".join(map(str, values))
        _kimi(call)
        set_values(call.arguments, "__kimi_env_model__", *_MODEL)


def _kimi_past(call: Call) -> str:
    _, name, provider = _kimi_model(call)
    return f"they go to its provider {name}" if provider.get("base_url") else ""


def _droid_settings(call: Call) -> list[dict[str, object]]:
    """Return the settings of this call, and of the user's file; empty: there are none."""
    own = read_json(home(call.environ), ".factory/settings.json")
    return [read_json(value_of(call.arguments, "--settings"), given=True), own]


def _droid_flags(call: Call) -> None:
    """Give it its own models with the run's base URL, in settings that go before those of the user's file."""
    import json

    files = _droid_settings(call)
    models = next((found for each in files if (found := listed(each.get("customModels")))), [])
    ours = [{**each, "baseUrl": call.base + "/v1" * (each.get("provider") != "anthropic")} for each in models]
    path = call.kept("droid.json", json.dumps({**files[0], "customModels": ours})) if ours else None
    if path is not None and value_of(call.arguments, "--settings"):
        set_values(call.arguments, path, "--settings")
    elif path is not None:
        start = int(call.arguments[:1] == ["exec"])
        call.arguments[start:start] = ["--settings", path]


def _droid_past(call: Call) -> str:
    files = _droid_settings(call)
    default = (found for each in files if (found := at(each, "sessionDefaultSettings").get("model")))
    used = value_of(call.arguments, *_MODEL) or next(default, "")
    if str(used).startswith("custom:") and listed(files[0].get("customModels")):
        return ""
    return "Factory's own servers call the models, but for customModels of ~/.factory/settings.json"


def _none(program: str, maker: str) -> Client:
    return Client(program, program, past=lambda call: f"{maker}'s own servers call the models")


_MAKERS = {"amp": "Amp", "cursor-agent": "Cursor", "auggie": "Augment", "qodercli": "Qoder", "codebuff": "Codebuff"}
CLIENTS = {
    "copilot": Client("copilot", "copilot", variables=_copilot, past=_copilot_past),
    "grok": Client("grok-build", "grok", variables=_grok, past=_grok_past),
    "kimi": Client("kimi-code", "kimi", variables=_kimi, flags=_kimi_flags, past=_kimi_past),
    "droid": Client("droid", "droid", flags=_droid_flags, past=_droid_past),
    **{program: _none(program, maker) for program, maker in _MAKERS.items()},
}
