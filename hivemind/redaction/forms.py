"""Forms of API keys and tokens, by which they are recognised wherever they stand.

The table has one row for each form. To add a provider, add a row: a prefix that its keys begin with, the characters
that follow, and the fewest of them that make it a key. Keys without a prefix of their own (32 hexadecimal digits, say)
would be found in any text; they are recognised by the name of the variable that holds them (:data:`NAMED`).

All forms are compiled into one pattern, :func:`compiled`. It takes linear time, by construction: a prefix is looked for
only at its rarest character, what is checked there before a match is certain has a bounded length, and the run of
characters that follows is consumed once.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import Struct

_ALNUM = "A-Za-z0-9"
_WORD = "A-Za-z0-9_"
_URL64 = "A-Za-z0-9_-"
_BASE64 = "A-Za-z0-9+/="
_LOWER = "a-z0-9"
_UPPER = "A-Z0-9"
_HEX = "0-9a-fA-F"

LONGEST_KEY = 1 << 16
"""Characters of one key that are masked in one go; no key is that long."""


class Form(NamedTuple):
    """Keys that begin with one of `prefixes`, followed by at least `least` of `chars`."""

    provider: str
    prefixes: tuple[str, ...]
    chars: str
    """The content of the brackets of a regular expression's character class."""
    least: int
    source: str
    """Where the form is documented, or was taken from: the provider's documentation, or the rules of gitleaks
    (github.com/gitleaks/gitleaks, config/gitleaks.toml) or trufflehog (github.com/trufflesecurity/trufflehog,
    pkg/detectors), which check theirs against real keys."""


FORMS: tuple[Form, ...] = (
    # --- Models ---------------------------------------------------------------------------------------------------
    # Many providers and gateways use `sk-`, with various lengths, so whatever follows it is taken for a key.
    Form("OpenAI, DeepSeek, LiteLLM and others", ("sk-",), _URL64, 8, "https://platform.openai.com/docs"),
    # Those with a longer prefix are found behind letters too (`tokensk-ant-`), where `sk-` may end a word (`task-`).
    Form(
        "Anthropic",
        ("sk-ant-api", "sk-ant-oat", "sk-ant-ort", "sk-ant-sid", "sk-ant-admin"),
        _URL64,
        20,
        "https://docs.anthropic.com/en/api/getting-started",
    ),
    Form("OpenAI", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-service-"), _URL64, 20, "trufflehog openai"),
    Form("OpenRouter", ("sk-or-v1-",), _URL64, 20, "https://openrouter.ai/docs/api-reference/authentication"),
    Form("Langfuse", ("sk-lf-",), _URL64, 8, "https://langfuse.com/docs/api"),
    Form("Langfuse", ("pk-lf-",), _URL64, 32, "https://langfuse.com/docs/api"),
    Form("OpenAI (Codex, ephemeral)", ("ek_",), _ALNUM, 24, "https://platform.openai.com/docs/guides/realtime"),
    Form("Google (API key)", ("AIza", "AIzaSy"), _URL64, 16, "https://cloud.google.com/docs/authentication/api-keys"),
    Form("Google (access token)", ("ya29.",), _URL64, 20, "https://developers.google.com/identity/protocols/oauth2"),
    Form("Google (refresh token)", ("1//0",), _URL64, 30, "https://developers.google.com/identity/protocols/oauth2"),
    Form("Google (client secret)", ("GOCSPX-",), _URL64, 20, "https://developers.google.com/identity/protocols/oauth2"),
    Form("Amazon Bedrock", ("ABSK",), _BASE64, 100, "gitleaks aws-amazon-bedrock-api-key-long-lived"),
    Form("Amazon Bedrock", ("bedrock-api-key-",), _BASE64, 20, "gitleaks aws-amazon-bedrock-api-key-short-lived"),
    Form("Groq", ("gsk_",), _ALNUM, 20, "https://console.groq.com/docs/quickstart; trufflehog groq"),
    Form("Hugging Face", ("hf_", "api_org_"), _ALNUM, 20, "https://huggingface.co/docs/hub/security-tokens"),
    Form("Replicate", ("r8_",), _ALNUM, 20, "https://replicate.com/docs/topics/security/api-tokens"),
    Form("xAI", ("xai-",), _ALNUM, 20, "https://docs.x.ai/docs/tutorial; trufflehog xai"),
    Form("Perplexity", ("pplx-",), _ALNUM, 20, "https://docs.perplexity.ai/guides/getting-started"),
    Form("NVIDIA", ("nvapi-",), _URL64, 20, "https://docs.api.nvidia.com/nim/docs/api-quickstart; trufflehog nvapi"),
    Form("Together", ("tgp_v1_",), _URL64, 30, "https://docs.together.ai/docs/quickstart"),
    Form("Fireworks", ("fw_",), _ALNUM, 20, "https://docs.fireworks.ai/getting-started/quickstart"),
    Form("Cerebras", ("csk-",), _LOWER, 20, "https://inference-docs.cerebras.ai/quickstart"),
    Form("Voyage", ("pa-",), _URL64, 43, "https://docs.voyageai.com/docs/api-key-and-installation"),
    Form("Jina", ("jina_",), _URL64, 32, "https://jina.ai/api-dashboard/"),
    Form("ElevenLabs", ("sk_",), _HEX, 40, "https://elevenlabs.io/docs/api-reference/authentication"),
    Form("LlamaCloud", ("llx-",), _URL64, 40, "https://docs.cloud.llamaindex.ai/llamaparse/getting_started/api_key"),
    Form("Databricks", ("dapi",), "0-9a-f-", 32, "https://docs.databricks.com/en/dev-tools/auth/pat.html"),
    # --- What agents use ------------------------------------------------------------------------------------------
    Form("LangSmith", ("lsv2_pt_", "lsv2_sk_"), _WORD, 32, "https://docs.smith.langchain.com; trufflehog langsmith"),
    Form("Tavily", ("tvly-",), _URL64, 20, "https://docs.tavily.com/documentation/quickstart"),
    Form("Brave Search", ("BSA",), _URL64, 24, "https://kilo.ai/docs/kiloclaw/tools/brave-search"),
    Form("Firecrawl", ("fc-",), _HEX, 32, "https://docs.firecrawl.dev/introduction"),
    Form("E2B", ("e2b_",), _HEX, 32, "https://e2b.dev/docs/api-key; github.com/e2b-dev/dashboard, support router"),
    Form("Pinecone", ("pcsk_",), _WORD, 30, "https://docs.pinecone.io/guides/projects/manage-api-keys"),
    Form("Apify", ("apify_api_",), _ALNUM, 30, "https://docs.apify.com/platform/integrations/api"),
    Form("Context7", ("ctx7sk-",), _URL64, 20, "https://github.com/upstash/context7"),
    Form("Linear", ("lin_api_", "lin_oauth_"), _ALNUM, 30, "https://linear.app/developers; gitleaks linear-api-key"),
    Form("Notion", ("ntn_",), _ALNUM, 40, "https://developers.notion.com/changelog; gitleaks notion-api-token"),
    Form("Notion", ("secret_",), _ALNUM, 40, "https://developers.notion.com; trufflehog notion"),
    Form("PostHog", ("phx_", "phs_"), _WORD, 40, "https://posthog.com/docs/api; trufflehog posthog"),
    Form("Figma", ("figd_", "figp_"), _URL64, 40, "https://www.figma.com/developers/api; trufflehog figma"),
    Form("Sentry", ("sntryu_",), _HEX, 60, "https://docs.sentry.io/api/auth/; gitleaks sentry-user-token"),
    Form("Sentry", ("sntrys_",), _BASE64 + "_", 60, "https://docs.sentry.io/api/auth/; gitleaks sentry-org-token"),
    Form("Slack", tuple(f"xox{kind}-" for kind in "abeoprs"), _URL64, 10, "https://api.slack.com/concepts/token-types"),
    Form("Slack", ("xapp-",), _URL64, 10, "https://api.slack.com/concepts/token-types"),
    Form("Slack", ("hooks.slack.com/services/",), _ALNUM + "/", 30, "https://api.slack.com/messaging/webhooks"),
    # --- Code and packages ----------------------------------------------------------------------------------------
    Form("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _ALNUM, 20, "https://docs.github.com/en/authentication"),
    Form("GitHub", ("github_pat_",), _WORD, 20, "the same"),
    Form(
        "GitLab",
        ("glpat-", "glptt-", "glrt-", "gldt-", "glft-", "glcbt-", "glsoat-", "glimt-", "glagent-", "glffct-", "gloas-"),
        _URL64,
        20,
        "https://docs.gitlab.com/security/tokens/#token-prefixes",
    ),
    Form("npm", ("npm_",), _ALNUM, 30, "https://docs.npmjs.com/about-access-tokens; gitleaks npm-access-token"),
    Form("PyPI", ("pypi-",), _URL64, 50, "https://pypi.org/help/#apitoken; gitleaks pypi-upload-token"),
    Form("RubyGems", ("rubygems_",), _HEX, 40, "https://guides.rubygems.org/api-key-scopes; gitleaks rubygems"),
    Form("Docker", ("dckr_pat_", "dckr_oat_"), _URL64, 20, "https://docs.docker.com/security/for-developers/"),
    Form("Postman", ("PMAK-",), _HEX + "-", 40, "https://learning.postman.com; gitleaks postman-api-token"),
    # --- Clouds and services --------------------------------------------------------------------------------------
    Form("AWS (access key id)", ("AKIA", "ASIA", "ABIA", "ACCA"), _UPPER, 16, "AWS, IAM user guide, identifiers"),
    Form("Alibaba Cloud", ("LTAI",), _ALNUM, 12, "gitleaks alibaba-access-key-id"),
    Form("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), _HEX, 40, "https://docs.digitalocean.com/reference/api/"),
    Form("Cloudflare", ("cfut_", "cfat_", "cfk_"), _ALNUM, 40, "trufflehog cloudflareapitoken"),
    Form("Cloudflare (origin CA)", ("v1.0-",), _HEX + "-", 100, "gitleaks cloudflare-origin-ca-key"),
    Form("Vercel", ("vcp_", "vck_", "vci_", "vca_", "vcr_"), _ALNUM, 20, "https://vercel.com/docs/rest-api"),
    Form("Supabase", ("sbp_", "sb_secret_"), _WORD, 20, "https://supabase.com/docs/guides/api/api-keys"),
    Form("PlanetScale", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), _URL64, 30, "gitleaks planetscale-*"),
    Form("Fly.io", ("fo1_", "fm1r_", "fm1a_", "fm2_"), _BASE64 + "_-", 40, "gitleaks flyio-access-token"),
    Form("Heroku", ("HRKU-",), _URL64, 30, "gitleaks heroku-api-key-v2"),
    Form("HashiCorp Vault", ("hvs.", "hvb."), _URL64, 20, "https://developer.hashicorp.com/vault/docs/concepts/tokens"),
    Form("Doppler", ("dp.pt.", "dp.st.", "dp.ct."), _ALNUM, 20, "https://docs.doppler.com"),
    Form("1Password", ("ops_eyJ",), _BASE64 + "_-", 40, "https://developer.1password.com/docs/service-accounts/"),
    Form("Tailscale", ("tskey-",), _URL64, 16, "https://tailscale.com/kb/1085/auth-keys; trufflehog tailscale"),
    Form("Grafana", ("glsa_", "glc_"), _BASE64 + "_", 32, "https://grafana.com/docs; gitleaks grafana-*"),
    Form("New Relic", ("NRAK-",), _ALNUM, 20, "https://docs.newrelic.com; gitleaks new-relic-user-api-key"),
    Form("Pulumi", ("pul-",), _HEX, 40, "https://www.pulumi.com/docs; gitleaks pulumi-api-token"),
    Form("age", ("AGE-SECRET-KEY-1",), _UPPER, 40, "https://github.com/FiloSottile/age"),
    # --- Money and mail -------------------------------------------------------------------------------------------
    Form(
        "Stripe",
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "sk_prod_", "whsec_"),
        _ALNUM,
        16,
        "https://docs.stripe.com/keys",
    ),
    Form("Shopify", ("shpat_", "shpca_", "shppa_", "shpss_"), _HEX, 32, "https://shopify.dev/docs/apps/build"),
    Form("Square", ("sq0atp-", "sq0csp-"), _URL64, 20, "gitleaks square-access-token"),
    Form("SendGrid", ("SG.",), "." + _URL64, 40, "https://docs.sendgrid.com/ui/account-and-settings/api-keys"),
    Form("Mailgun", ("key-",), _HEX, 32, "https://documentation.mailgun.com; gitleaks mailgun-private-api-token"),
    Form("Resend", ("re_",), _ALNUM + "_", 24, "https://resend.com/docs/dashboard/api-keys/introduction"),
    Form("Twilio", ("SK",), _HEX, 32, "https://www.twilio.com/docs/iam/api-keys; gitleaks twilio-api-key"),
    Form("Google (API key of 2026)", ("AQ.",), _URL64, 30, "https://ai.google.dev/gemini-api/docs/api-key"),
    Form("GitHub Copilot", ("tid=",), _ALNUM + "=;:._-", 40, "api.github.com/copilot_internal/v2/token"),
)

NAMED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("AWS", ("SecretAccessKey", "secretAccessKey", "aws_secret_access_key", "SessionToken"), "AWS CLI, STS"),
    ("Azure", ("AccountKey", "api-key", "Ocp-Apim-Subscription-Key"), "https://learn.microsoft.com/azure/ai-services/"),
    ("Google", ("client_secret", "refresh_token", "access_token"), "application default credentials, OAuth 2.0"),
    ("Claude Code, MCP", ("accessToken", "refreshToken", "authToken", "clientSecret"), ".credentials.json, OAuth 2.1"),
    (
        "Mistral and others",
        ("api_key", "apiKey", "mistralApiKey"),
        "https://docs.mistral.ai/getting-started/quickstart",
    ),
    ("Weights & Biases", ("wandb_api_key",), "https://docs.wandb.ai/guides/track/environment-variables"),
)
"""Provider, names, and source, of keys without a form of their own: what follows such a name and `=` or `:` is masked
if it is long and has a digit in it. Variables in capitals that end in `_KEY`, `_TOKEN`, `_SECRET` or `_PASSWORD` need
no row: `MISTRAL_API_KEY`, `COHERE_API_KEY`, `EXA_API_KEY`, `WANDB_API_KEY`, `AZURE_OPENAI_API_KEY`, `VERCEL_TOKEN`,
`CLOUDFLARE_API_TOKEN` and so on are recognised by that."""

_NAMED_LEAST = 16
_ESCAPED = r"(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
"""A key may also begin after an escape of JSON or a URL, although a letter or digit precedes it."""
_BEGIN = rf"(?:(?<![{_ALNUM}])|{_ESCAPED})"
_RUN_BEGIN = rf"(?:(?<![{_URL64}])|{_ESCAPED})"
"""The beginning of a run of URL-safe characters, for patterns that may read all of a run before they fail."""
_SEPARATORS = "_-."
_RARE = "_-.~=QZXJVKYzqjxBWGULPTDkvFHMNbCRSOAEI0123456789wfygpumcdhlrsniotae/:"
"""Characters from the rare to the frequent in prose, code and JSON."""


class _Alternative(Struct, frozen=True):
    """A part of the pattern, tried at each place of its anchor."""

    anchor: str
    pattern: str
    """The pattern after the anchor, with a lookbehind where needed. It has one group, which is empty."""
    back: int = -1
    """How far before the anchor the masked text begins; -1: at the group."""
    before: str = ""
    """Literal text before the anchor, where `pattern` requires some."""
    run: str = ""
    """Characters of which `least` follow the anchor, where `pattern` requires some."""
    least: int = 0


def _alternatives(form: Form) -> list[_Alternative]:
    found = []
    for prefix in form.prefixes:
        at = _rarest(prefix)
        # A short prefix is also the end of an ordinary word (`task-`), so that it counts at a word's beginning only.
        distinct = _is_distinct(prefix)
        behind = f"(?<={'' if distinct else _BEGIN}{re.escape(prefix[: at + 1])})"
        rest = prefix[at + 1 :]
        pattern = f"{behind}{re.escape(rest)}[{form.chars}]{{{form.least},{LONGEST_KEY}}}+()"
        run, least = ("", 0) if rest else (form.chars, form.least)
        found.append(_Alternative(prefix[at], pattern, at, prefix[:at], run, least))
    return found


def _is_distinct(prefix: str) -> bool:
    """Return whether it is no end of a word, and of no random text, so that a key may begin behind letters."""
    return len(prefix) > 5 or (len(prefix) > 3 and prefix[-1] in _SEPARATORS)


def _rarest(text: str) -> int:
    """Return the position of the anchor, the rarest character."""
    if text[-1] in _SEPARATORS:
        return len(text) - 1
    return min(range(len(text)), key=lambda index: _RARE.index(text[index]))


def _is_covered(form: Form, prefix: str) -> bool:
    """Return whether another form matches all keys of this one, so that it needn't be compiled."""
    return any(
        prefix != other
        and prefix.startswith(other)
        and each.least <= form.least
        and each.chars == form.chars
        and (_is_distinct(other) or not _is_distinct(prefix))
        for each in FORMS
        for other in each.prefixes
    )


def _special() -> list[_Alternative]:
    """Return the alternatives that aren't a prefix and a run."""
    value = (
        rf"""[\\"']{{0,3}}[ \t]{{0,4}}[:=][ \t]{{0,4}}[\\"']{{0,3}}()(?=[A-Za-z_+/=.~-]{{0,64}}[0-9])"""
        rf"[A-Za-z0-9_+/=.~-]{{{_NAMED_LEAST},{LONGEST_KEY}}}+"
    )
    part = rf"[{_URL64}]{{8,{LONGEST_KEY}}}+"
    special = [
        # RFC 7519: header, payload and signature, in base64url; the first is a JSON object.
        _Alternative("J", rf"(?<={_RUN_BEGIN}eyJ){part}\.{part}(?:\.[{_URL64}]{{0,{LONGEST_KEY}}}+){{0,3}}()", 2, "ey"),
        # Zhipu and Z.ai: an id of 32 hexadecimal digits, and a secret, which alone is masked.
        _Alternative(".", rf"(?<=[0-9a-f]{{32}}\.)()[{_ALNUM}]{{16}}(?![{_ALNUM}])"),
        # https://core.telegram.org/bots/api#authorizing-your-bot: the number of the bot isn't secret.
        _Alternative(":", r"(?<=[0-9]{8}:)()AA[A-Za-z0-9_-]{33}"),
        # RFC 3986, 3.2.1: user name and password in a URL. Neither has a slash in it, so each character is read once.
        _Alternative(":", r"//()[^\s/\\'\"<>]{1,4096}(?=@)"),
        # RFC 7468: to its end, or as far as it goes where that is missing. Also within a JSON string.
        _Alternative(
            "-",
            r"(?<=(?<!-)-)----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----()"
            r"(?!\*{3})(?:[A-Za-z0-9+/=\s:,]++|-(?!----)|\\[nr]){0,4096}+",
        ),
        # A variable in capitals.
        _Alternative("_", rf"(?<=[A-Z0-9]_)(?:KEY|TOKEN|SECRET|PASSWORD){value}"),
    ]
    for _, names, _ in NAMED:
        for name in names:
            at = _rarest(name)
            behind = f"(?<={_BEGIN}{re.escape(name[: at + 1])})"
            special.append(_Alternative(name[at], f"{behind}{re.escape(name[at + 1 :])}{value}", -1, name[:at]))
    return special


class Finder(Struct, frozen=True):
    """The compiled table, for text or for bytes."""

    pattern: re.Pattern[Any]
    _back: tuple[int, ...]

    def span(self, match: re.Match[Any]) -> tuple[int, int]:
        """Return the span of a match that is masked."""
        index = match.lastindex or 0
        back = self._back[index - 1]
        return (match.start() - back if back >= 0 else match.start(index)), match.end()


@cache
def _source() -> tuple[str, tuple[int, ...]]:
    """Return the pattern, and for each group how far before the match the masked text begins; -1: at the group."""
    by_anchor: dict[str, list[_Alternative]] = {}
    for form in FORMS:
        kept = form._replace(prefixes=tuple(each for each in form.prefixes if not _is_covered(form, each)))
        for each in _alternatives(kept):
            by_anchor.setdefault(each.anchor, []).append(each)
    for each in _special():
        by_anchor.setdefault(each.anchor, []).append(each)
    branches: list[str] = []
    back: list[int] = []
    for anchor, alternatives in by_anchor.items():
        runs = sorted((each for each in alternatives if each.run), key=_last_before)
        words = sorted((each for each in alternatives if each.before and not each.run), key=_last_before)
        others = [each for each in alternatives if not each.before and not each.run]
        branch = [*_filtered(anchor, runs), *_filtered(anchor, words), *(each.pattern for each in others)]
        branches.append(f"{re.escape(anchor)}(?:{'|'.join(branch)})")
        back += [each.back for each in (*runs, *words, *others)]
    return "|".join(branches), tuple(back)


def _filtered(anchor: str, alternatives: list[_Alternative]) -> list[str]:
    """Return the alternatives behind a check of what they have in common, which is quicker than trying each."""
    if not alternatives:
        return []
    depth = min(min(len(each.before) for each in alternatives), 2)
    classes = (_class({each.before[-place] for each in alternatives}) for place in range(depth, 0, -1))
    behind = f"(?<={''.join(classes)}{re.escape(anchor)})" if depth else ""
    least = min(each.least for each in alternatives)
    ahead = f"(?=[{''.join(sorted({each.run.strip('-') for each in alternatives}))}-]{{{least}}})" if least else ""
    groups = []
    for last, group in groupby(alternatives, _last_before):
        patterns = "|".join(each.pattern for each in group)
        groups.append(f"(?<={re.escape(last + anchor)})(?:{patterns})" if last else patterns)
    return [f"{ahead}{behind}(?:{'|'.join(groups)})"]


def _last_before(alternative: _Alternative) -> str:
    return alternative.before[-1:]


def _class(characters: set[str]) -> str:
    return f"[{''.join(re.escape(each) for each in sorted(characters))}]"


@cache
def text_finder() -> Finder:
    """Return the table for text, compiled on first use, because that takes some milliseconds."""
    source, back = _source()
    return Finder(re.compile(source), back)


@cache
def bytes_finder() -> Finder:
    """Return the table for bytes."""
    source, back = _source()
    return Finder(re.compile(source.encode()), back)
