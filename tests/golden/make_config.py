#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Hugging Face's `transformers` reads from files that say one thing at two places.

Writes each case below as config.json (and generation_config.json) into a folder, lets transformers read it, and stores
the values that its model code uses in config_expected.json, in a column for the installed version. Run the script once
with a version 4 and once with a version 5; the column of another version is kept. PyTorch is not needed.

The committed file was made with transformers 4.57.6 and 5.24.0. In 5.0.0 the functions that read these fields
(convert_rope_params_to_dict, standardize_rope_params, attribute_map) do the same.

A case has these keys:
  name, config, generation (null: no generation_config.json)
  yoke    "agree": both versions use the same values, and so does Yoke.
          "5":     the file says the value only in the form of version 5, which version 4 does not know or fails on.
          "refuse": the file says two values, and the versions use different ones. Yoke's error has both.
          "not computed": Yoke refuses the value that version 5 uses.
  words   texts that are in the error
  4, 5    the values; null: transformers fails

usage: make_config.py [FILE]        without FILE: config_expected.json beside this script
"""
import json
import os
import sys
import tempfile

import transformers
from transformers import AutoConfig, GenerationConfig

LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "vocab_size": 1024, "max_position_embeddings": 128}
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 1024}
QWEN2 = dict(LLAMA, model_type="qwen2")
MISTRAL = dict(LLAMA, model_type="mistral")
AS_LLAMA = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
            "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "hidden_act"]
AS_GPT2 = ["n_embd", "n_layer", "n_head", "n_positions", "vocab_size", "layer_norm_epsilon", "tie_word_embeddings", "activation_function"]


def cases():
    def llama(name, yoke, more, *words, of=LLAMA):
        return {"name": name, "yoke": yoke, "config": dict(of, **more), "generation": None, "words": list(words)}

    def qwen2(name, yoke, more, *words):
        return llama("Qwen2: " + name, yoke, dict({"num_key_value_heads": 2}, **more), *words, of=QWEN2)

    def mistral(name, yoke, more, *words):
        return llama("Mistral: " + name, yoke, dict({"num_key_value_heads": 2}, **more), *words, of=MISTRAL)

    def gpt2(name, yoke, more, *words, without=()):
        made = {key: value for key, value in GPT2.items() if key not in without}
        return {"name": name, "yoke": yoke, "config": dict(made, **more), "generation": None, "words": list(words)}

    def eos(config, generation, yoke="agree"):
        made = gpt2(f"eos {config} and {generation}", yoke, {} if config == "none" else {"eos_token_id": config})
        made["generation"] = None if generation == "no file" else {} if generation == "none" else {"eos_token_id": generation}
        return made

    five, linear = 500000, {"rope_type": "linear", "factor": 2.0}
    return [
        llama("no rope", "agree", {}),
        llama("rope_theta", "agree", {"rope_theta": five}),
        llama("empty rope_scaling", "5", {"rope_scaling": {}}),
        llama("null rope_scaling", "agree", {"rope_scaling": None, "rope_theta": five}),
        llama("empty rope_parameters", "agree", {"rope_parameters": {}, "rope_theta": five}),
        llama("null rope_parameters", "agree", {"rope_parameters": None, "rope_theta": five}),
        llama("rope_parameters without a type", "5", {"rope_parameters": {"rope_theta": five}}),
        llama("rope_parameters", "5", {"rope_parameters": {"rope_type": "default", "rope_theta": five}}),
        llama("rope_parameters with an old type", "5", {"rope_parameters": {"type": "default", "rope_theta": five}}),
        llama("rope_scaling with theta", "5", {"rope_scaling": {"rope_type": "default", "rope_theta": five}}),
        llama("rope_scaling with theta alone", "5", {"rope_scaling": {"rope_theta": five}}),
        llama("rope_parameters without theta", "agree", {"rope_theta": five, "rope_parameters": {"rope_type": "default"}}),
        llama("theta twice, the same", "agree", {"rope_theta": five, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
        llama("theta twice", "refuse", {"rope_theta": 10000, "rope_parameters": {"rope_type": "default", "rope_theta": five}},
              "rope_theta is 10000", "rope_parameters.rope_theta is 500000"),
        llama("theta twice, rope_scaling", "refuse", {"rope_theta": 10000, "rope_scaling": {"rope_type": "default", "rope_theta": five}},
              "rope_theta is 10000", "rope_scaling.rope_theta is 500000"),
        llama("rope_scaling hides rope_parameters", "agree", {"rope_theta": 20000, "rope_scaling": {"rope_type": "default"}, "rope_parameters": {"rope_theta": five}}),
        llama("rope_scaling hides a type", "agree", {"rope_scaling": {"rope_type": "default"}, "rope_parameters": linear}),
        llama("rope_scaling hides rope_parameters, without theta", "agree", {"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_theta": five}}),
        llama("rope_type and type", "refuse", {"rope_scaling": {"rope_type": "default", "type": "linear", "factor": 2.0}},
              'rope_scaling.type is "linear"', 'rope_scaling.rope_type is "default"'),
        llama("rope_type and type, the other way", "refuse", {"rope_scaling": {"type": "default", "rope_type": "linear", "factor": 2.0}},
              'rope_scaling.type is "default"', 'rope_scaling.rope_type is "linear"'),
        llama("linear", "not computed", {"rope_scaling": linear}, 'rope_scaling.rope_type is "linear"'),
        llama("linear, old", "not computed", {"rope_scaling": {"type": "linear", "factor": 2.0}}, 'rope_scaling.type is "linear"'),
        llama("linear in rope_parameters", "not computed", {"rope_parameters": linear}, 'rope_parameters.rope_type is "linear"'),
        llama("llama3", "not computed", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                             "original_max_position_embeddings": 64}}, 'rope_parameters.rope_type is "llama3"'),
        llama("half of a head", "not computed", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        llama("half of a head in rope_parameters", "not computed", {"rope_parameters": {"partial_rotary_factor": 0.5}},
              "rope_parameters.partial_rotary_factor is 0.5"),
        llama("all of a head", "agree", {"partial_rotary_factor": 1.0}),
        llama("head_dim", "agree", {"head_dim": 32}),
        llama("null head_dim and num_key_value_heads", "agree", {"head_dim": None, "num_key_value_heads": None}),
        llama("num_key_value_heads", "agree", {"num_key_value_heads": 2}),
        llama("names of a GPT-2", "agree", {"n_embd": 32, "n_layer": 7, "n_head": 8, "n_positions": 64, "n_ctx": 32, "layer_norm_epsilon": 1e-3,
                                            "activation_function": "gelu", "hidden_activation": "gelu", "d_model": 16, "n_inner": 48}),
        llama("tied", "agree", {"tie_word_embeddings": True}),
        qwen2("as usual", "agree", {}),
        llama("Qwen2: no num_key_value_heads", "agree", {"num_attention_heads": 32, "hidden_size": 128}, of=QWEN2),
        qwen2("null num_key_value_heads", "agree", {"num_key_value_heads": None}),
        qwen2("tied, rope_theta, eps", "agree", {"tie_word_embeddings": True, "rope_theta": 1000000.0, "rms_norm_eps": 1e-5}),
        qwen2("rope_parameters", "5", {"rope_parameters": {"rope_type": "default", "rope_theta": five}}),
        qwen2("yarn", "not computed", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
              'rope_scaling.rope_type is "yarn"'),
        qwen2("attention_bias means nothing", "agree", {"attention_bias": False, "mlp_bias": True}),
        qwen2("head_dim", "agree", {"head_dim": 32}),
        qwen2("a window that is not used", "agree", {"use_sliding_window": False, "sliding_window": 32, "max_window_layers": 0}),
        qwen2("a window behind all layers", "agree", {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 2}),
        qwen2("a window of the last layer", "agree", {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1}),
        qwen2("the usual window", "agree", {"use_sliding_window": True, "max_window_layers": 0}),
        qwen2("max_window_layers is 28", "agree", {"use_sliding_window": True, "sliding_window": 32, "num_hidden_layers": 29}),
        qwen2("a null window", "agree", {"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0}),
        qwen2("layer_types without a window", "agree", {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0,
                                                        "layer_types": ["full_attention", "full_attention"]}),
        qwen2("layer_types with a window", "agree", {"use_sliding_window": True, "sliding_window": 32,
                                                     "layer_types": ["full_attention", "sliding_attention"]}),
        mistral("as usual", "agree", {}),
        llama("Mistral: no num_key_value_heads", "agree", {"num_attention_heads": 16}, of=MISTRAL),
        mistral("null head_dim", "agree", {"head_dim": None}),
        mistral("head_dim", "agree", {"head_dim": 24}),
        mistral("a window", "agree", {"sliding_window": 32}),
        mistral("a null window", "agree", {"sliding_window": None}),
        mistral("keys of a Qwen2", "agree", {"sliding_window": 32, "use_sliding_window": False, "max_window_layers": 28}),
        mistral("tied, rope_theta, eps", "agree", {"tie_word_embeddings": True, "rope_theta": 1000000.0, "rms_norm_eps": 1e-5}),
        mistral("rope_parameters", "5", {"rope_parameters": {"rope_type": "default", "rope_theta": five}}),
        mistral("rope_type and type", "agree", {"rope_scaling": {"rope_type": "default", "type": "linear", "factor": 2.0}}),
        mistral("rope_type and type, the other way", "not computed", {"rope_scaling": {"type": "default", "rope_type": "linear", "factor": 2.0}},
                'rope_scaling.rope_type is "linear"'),
        mistral("linear", "not computed", {"rope_scaling": {"type": "linear", "factor": 2.0}}, 'rope_scaling.type is "linear"'),
        mistral("attention_bias means nothing", "agree", {"attention_bias": True, "mlp_bias": True}),
        gpt2("as usual", "agree", {}),
        gpt2("n_ctx", "agree", {"n_ctx": 64}),
        gpt2("names of transformers", "agree", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128},
             without=("n_embd", "n_layer", "n_head", "n_positions")),
        gpt2("max_position_embeddings", "agree", {"max_position_embeddings": 256}),
        gpt2("hidden_size", "agree", {"hidden_size": 32}),
        gpt2("num_attention_heads", "agree", {"num_attention_heads": 2}),
        gpt2("num_hidden_layers", "agree", {"num_hidden_layers": 3}),
        gpt2("names of a Llama", "agree", {"hidden_act": "relu", "hidden_activation": "relu", "rms_norm_eps": 1e-3, "intermediate_size": 96, "head_dim": 8,
                                           "num_key_value_heads": 2, "rope_theta": 5, "layer_norm_eps": 1e-3, "attention_dropout": 0.3}),
        gpt2("both names of the type", "agree", {"dtype": "bfloat16", "torch_dtype": "float16"}),
        gpt2("no eos", "agree", {}),
        eos(7, "no file"), eos([7, 8], "no file"), eos(None, "no file"), eos(7, 9), eos(7, [8, 9]), eos(7, "none"), eos(7, None), eos(None, 9),
        eos("none", 9), eos("none", "none"),
    ]


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="ascii") as out:
        json.dump(value, out)


def end_of_text(folder, config):
    """The tokens that end a text: as modeling_utils.from_pretrained of version 4 and adjust_generation_fn of version 5 find them."""
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        ids = GenerationConfig.from_pretrained(folder).eos_token_id
    elif transformers.__version__.startswith("4."):
        ids = GenerationConfig.from_model_config(config).eos_token_id
    else:
        ids = GenerationConfig.from_pretrained(folder, config_file_name="config.json", _from_model_config=True).eos_token_id
    return [] if ids is None else ids if isinstance(ids, list) else [ids]


def rope(config):
    """The type, theta and turned share of a head that LlamaRotaryEmbedding uses."""
    if transformers.__version__.startswith("4."):
        scaling = getattr(config, "rope_scaling", None)
        kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else "default"
        return {"rope_type": kind, "rope_theta": config.rope_theta, "partial_rotary_factor": getattr(config, "partial_rotary_factor", 1.0)} if kind else None
    found = config.rope_parameters
    return {"rope_type": found["rope_type"], "rope_theta": found["rope_theta"], "partial_rotary_factor": found.get("partial_rotary_factor", 1.0)}


def window(config):
    """The window of the layers that have one; null: no layer has one."""
    types = getattr(config, "layer_types", None)
    return config.sliding_window if types is None or "sliding_attention" in types else None


def values(case):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "config.json", case["config"])
        if case["generation"] is not None:
            write(folder, "generation_config.json", case["generation"])
        try:
            config = AutoConfig.from_pretrained(folder)
            is_llama = case["config"]["model_type"] != "gpt2"
            if is_llama:  # as modeling_qwen2.py and its like do
                config.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            made = {key: getattr(config, key) for key in (AS_LLAMA if is_llama else AS_GPT2)}
            if hasattr(config, "sliding_window"):
                made["sliding_window"] = window(config)
            if is_llama:
                found = rope(config)
                if not found:
                    return None
                made.update(found)
            if case["name"].startswith("eos"):
                made["eos"] = end_of_text(folder, config)
            if "torch_dtype" in case["config"]:
                made["dtype"] = str(config.dtype)
            return made
        except Exception as why:  # transformers raises errors of many kinds
            print(case["name"], "fails:", type(why).__name__, why, file=sys.stderr)
            return None


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "config_expected.json")
    old = json.load(open(path, encoding="ascii")) if os.path.exists(path) else {"made_by": {}, "cases": []}
    kept = {case["name"]: case for case in old["cases"]}
    mine, other = ("4", "5") if transformers.__version__.startswith("4.") else ("5", "4")
    made = []
    for case in cases():
        before = kept.get(case["name"], {})
        columns = {mine: values(case), other: before.get(other) if before.get("config") == case["config"] else None}
        made.append(dict(case, **{column: columns[column] for column in ("4", "5")}))
    old["made_by"][mine] = f"transformers {transformers.__version__}"
    with open(path, "w", encoding="ascii") as out:
        out.write('{"made_by": ' + json.dumps(old["made_by"], sort_keys=True) + ', "cases": [\n')
        out.write(",\n".join(json.dumps(case) for case in made) + "\n]}\n")


if __name__ == "__main__":
    main()
