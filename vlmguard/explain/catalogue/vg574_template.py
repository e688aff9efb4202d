"""The chat template or the tokenizer is not what the rows need."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# alignment-handbook takes a template of the recipe's, else the tokenizer's own or its class's: a
# folder without one has Llama's, which refuses DPO's answers that stand alone.
_RECIPE = tuple(
    Do(
        "python -c 'import sys, json; from alignment.data import DEFAULT_CHAT_TEMPLATE as t; "
        'open(sys.argv[1], "a").write("\\nchat_template: " + json.dumps(t) + "\\n")\' '
        f"{recipe}: the template of the handbook's own SFT, into this recipe: the tokenizer brings "
        "none that takes an answer alone or a system message, which the handbook puts in front (a "
        "model of others: its card's chat_template)",
        "none",
        kind="recipe",
    )
    for recipe in ("{settings}", "RECIPE.yaml")
)


def _do(facts: Facts) -> tuple[Do, ...]:
    refused = "must alternate" in facts.message
    return (*_RECIPE, *_STEPS) if refused and "handbook" in facts.said else _STEPS


_STEPS = (
    Do(
        "leave --template out: ms-swift takes the model's own (or one of the list that "
        "the message prints)",
        "none",
        when=("template_type: '",),
        kind="template",
    ),
    Do(
        'messages = [{**t, "content": "".join(p["text"] for p in t["content"])} if '
        'isinstance(t["content"], list) and all(p["type"] == "text" for p in t["content"]) '
        "else t for t in messages]: where a row is made; content as one string in each turn "
        "without an image (the assistant's, the system's): this template joins text to it",
        "none",
        when=("can only concatenate", "'list object' has no attribute"),
    ),
    Do(
        "processor.chat_template = open('TEMPLATE.jinja').read(): one that takes a list as "
        "content for every role, on the processor that the collator calls (unsloth: "
        "python -m pip install -U unsloth unsloth_zoo, and the model loaded anew)",
        "none",
        when=("can only concatenate", "'list object' has no attribute"),
    ),
    Do(
        "python -c $'import json, sys\\nfor n, x in enumerate(open(sys.argv[1]), 1):\\n r = "
        '[m["role"] for m in json.loads(x)["messages"] if m["role"] != "system"]\\n if '
        'any(a == b for a, b in zip(r, r[1:])) or r[:1] != ["user"]: print(n, r)\' {rows}: '
        "the rows whose roles do not take turns",
        "none",
        when=(
            "roles must alternate",
            "must alternate",
            "must be user",
        ),
        kind="roles",
    ),
    Do(
        'the rows\' column tools as a list of JSON schemas ({"type": "function", '
        "\"function\": {…}}), not as a text: json.loads(row['tools'])",
        "none",
        when=("Tools should",),
    ),
    Do(
        "tokenizer.pad_token = tokenizer.eos_token before training, or a token of the "
        "vocabulary that is not used",
        "the end token is masked in the loss where it is the padding token",
        when=("pad token", "padding token", "pad_token", "Pad_token"),
    ),
    Do(
        "python -m pip install -U llamafactory: {template} is a template of a newer "
        "release, or "
        "misspelt: the table of models and templates in its README",
        "none",
        when=("Template ",),
    ),
    Do(
        "template",
        "none with an instruct model; a base model has not learnt the template's tokens",
        unless=(
            "pad token",
            "padding token",
            "pad_token",
            "roles must",
            "Only user",
            "can only concatenate",
            "'list object'",
            "Tools should",
            "ystem role not supported",
        ),
        kind="template",
    ),
    Do(
        'messages = [{**messages[1], "content": messages[0]["content"] + "\\n\\n" + '
        'messages[1]["content"]}, *messages[2:]] if messages[0]["role"] == "system" else messages: '
        "where a row is made: this model's template takes no system message, its words go in front "
        "of the first question",
        "none",
        when=("ystem role not supported",),
    ),
    Do(
        "roles as the template wants them: user and assistant in turn, "
        "a system message first or none",
        "rows change",
        unless=(
            "is not set",
            "not have a chat template",
            "pad token",
            "padding token",
            "can only concatenate",
        ),
    ),
    Do(
        "tokenizer.pad_token = tokenizer.eos_token, or a token of the vocabulary that is not used",
        "the end token is masked in the loss where it is the padding token",
        unless=(
            "chat_template",
            "chat template",
            "roles",
            "Template",
            "pad token",
            "padding token",
            "pad_token",
            "Pad_token",
            "can only concatenate",
        ),
    ),
)


FAILURE = Known(
    code="VG574",
    name="explain-template",
    title="The chat template, or the tokenizer's padding token, is missing or refuses the rows",
    zh="对话模板缺失或不接受该数据，或分词器没有 pad token",
    why=(
        "a row was to be put into the model's chat template or padded, and the "
        "template is missing, is another model's, or refuses the row (roles that do "
        "not alternate, a system message, content as a list), or the tokenizer has "
        "no padding token"
    ),
    do=_do,
    wrong="A template of another model makes the error go away and teaches the wrong tokens.",
    signs=(
        Sign("assert cur_len == total_len", where="trace", releases="LLaVA's kind"),
        Sign("tokenizer.chat_template is not set"),
        Sign("does not have a chat template"),
        Sign("does not have a {% if add_generation_prompt %}", releases="unsloth"),
        Sign("Cannot use chat template"),
        Sign("No chat template is set"),
        Sign("Invalid chat template name"),
        Sign("chat template is not training-compatible"),
        Sign("TemplateError"),
        Sign("TemplateSyntaxError"),
        Sign("The template does not support multi-round chat", releases="ms-swift 2"),
        Sign("The template does not support `system`", releases="ms-swift 2"),
        Sign("TemplateNotFound"),
        Sign("jinja2.exceptions."),
        Sign("roles must alternate"),
        Sign("not in TEMPLATE_MAPPING"),
        Sign("Template ", also=("does not exist",)),
        Sign("does not have a padding token"),
        Sign("does not have a pad token"),
        Sign("no padding token is defined"),
        Sign("pad_token", also=("is not found in the vocabulary",)),
        Sign("pad_token_id has to be defined"),
        Sign("Cannot apply chat template"),
        Sign("Only user and assistant roles are supported"),
        Sign("Supports only roles"),
        Sign("requires multiple roles"),
        Sign("Expected role tag"),
        Sign("pad token is the same as"),
        Sign("empty conversation", also=("chat template",)),
        Sign("continue_final_message"),
        Sign("<template>", where="trace"),
        Sign("-packages/jinja2/", where="raised"),
        Sign("in apply_chat_template", where="raised"),
        Sign("swift/template/register.py", where="raised"),
        Sign("input. Please check whether the correct `template`", releases="LLaMA-Factory"),
        Sign("in render_jinja_template", where="raised"),
        Sign("chat_template_utils.py", where="raised"),
        Sign("transformers/tokenization_utils_base.py", where="raised"),
        Sign("tokenization_utils_fast.py", where="raised"),
        Sign("tokenization_utils_tokenizers.py", where="raised"),
        Sign("does not have a mask token"),
        Sign("Padding side should be selected"),
        Sign("Pad_token_id must be set in the configuration"),
        Sign("multiple chat templates with no default"),
        Sign("is not prefix-preserving"),
        Sign("Unrecognized chat template"),
        Sign("is not found in the vocabulary of the given `processing_class`"),
        Sign("unsloth/chat_templates.py", where="raised"),
        Sign("unsloth/tokenizer_utils.py", where="raised"),
        Sign("unsloth_zoo/tokenizer_utils.py", where="raised"),
        Sign("axolotl/utils/chat_templates/", where="raised"),
        Sign("xtuner/v1/data_proto/templates", where="raised"),
        Sign("chat_template_utils.py", where="raised", releases="transformers"),
        Sign("chat template", where="else"),
        Sign("chat_template", where="else"),
        Sign("pad token", where="else"),
        Sign("padding token", where="else"),
        Sign("tokenizer", where="else"),
        Sign("rocessing_class", where="else"),
    ),
    examples=(
        Example(
            "ValueError: Cannot use chat template functions because "
            "tokenizer.chat_template is not set and no template argument was "
            "passed!",
            "transformers/tokenization_utils_base.py, 5.19.0",
        ),
        Example(
            "ValueError: Asking to pad but the tokenizer does not have a padding token.",
            "transformers/tokenization_utils_base.py, 5.19.0",
        ),
        Example(
            "jinja2.exceptions.TemplateError: Conversation roles must alternate "
            "user/assistant/user/assistant/...",
            "a template's own raise_exception (Gemma's, Mistral's); jinja2 3.1",
        ),
    ),
    evidence="transformers', TRL's, ms-swift's and LLaMA-Factory's own checks.",
    narrow=1,
)
