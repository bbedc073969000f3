#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make the golden files: what PyTorch says about one GPT-2 step. Debian's python3-torch (1.13) is enough.

    /usr/bin/python3 tests/golden/make_golden.py tests/golden

writes gpt2_nano_weights.safetensors (BF16, so that 16-bit runs start from the same numbers) and
gpt2_nano_expected.safetensors: tokens, targets, logits, loss, gradient norm, "grad.NAME" for every parameter and
"step.NAME", its value after one AdamW step with clipping. All is computed in float64 and stored as F32, the loss and the
norm as F64. Names and layouts are Hugging Face's (Conv1D weights are [in, out]). The model is written out here, from
the formulas, so that it shares nothing with Yoke but the file format.

gpt2_nano_wrong.safetensors holds losses and the gradients of all vectors of two wrong models, "unscaled.…" (attention
scores not divided by the root of the head's width) and "erf.…" (GELU by erf): the tests show by it that the gates notice.
"""
import array
import json
import math
import struct
import sys

import torch

L, C, H, T, V, B = 2, 64, 4, 64, 256, 2
EPS = 1e-5
LR, BETA1, BETA2, ADAM_EPS, DECAY, CLIP = 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0
SEED = 20240520


def names_and_shapes():
    yield "wte.weight", (V, C)
    yield "wpe.weight", (T, C)
    for i in range(L):
        h = f"h.{i}."
        yield h + "ln_1.weight", (C,)
        yield h + "ln_1.bias", (C,)
        yield h + "attn.c_attn.weight", (C, 3 * C)
        yield h + "attn.c_attn.bias", (3 * C,)
        yield h + "attn.c_proj.weight", (C, C)
        yield h + "attn.c_proj.bias", (C,)
        yield h + "ln_2.weight", (C,)
        yield h + "ln_2.bias", (C,)
        yield h + "mlp.c_fc.weight", (C, 4 * C)
        yield h + "mlp.c_fc.bias", (4 * C,)
        yield h + "mlp.c_proj.weight", (4 * C, C)
        yield h + "mlp.c_proj.bias", (C,)
    yield "ln_f.weight", (C,)
    yield "ln_f.bias", (C,)


def draw_weights():
    """Larger than a fresh model's, so that every term of the formulas shows in the result."""
    generator = torch.Generator().manual_seed(SEED)
    weights = {}
    for name, shape in names_and_shapes():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        is_gain = ".ln_" in "." + name and name.endswith(".weight")
        value = 1.0 + 0.1 * noise if is_gain else 0.1 * noise
        weights[name] = value.to(torch.bfloat16)
    return weights


def layer_norm(x, gain, bias):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + EPS) * gain + bias


def gelu(x, erf):
    if erf:
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def attention(x, w, h, scaled):
    qkv = x @ w[h + "attn.c_attn.weight"] + w[h + "attn.c_attn.bias"]
    q, k, v = (part.view(B, T, H, C // H).transpose(1, 2) for part in qkv.split(C, dim=2))
    scores = q @ k.transpose(2, 3)
    if scaled:
        scores = scores / math.sqrt(C // H)
    visible = torch.tril(torch.ones(T, T, dtype=torch.bool))
    p = torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1)
    y = (p @ v).transpose(1, 2).reshape(B, T, C)
    return y @ w[h + "attn.c_proj.weight"] + w[h + "attn.c_proj.bias"]


def forward(w, tokens, scaled, erf):
    x = w["wte.weight"][tokens] + w["wpe.weight"][:T]
    for i in range(L):
        h = f"h.{i}."
        x = x + attention(layer_norm(x, w[h + "ln_1.weight"], w[h + "ln_1.bias"]), w, h, scaled)
        inner = layer_norm(x, w[h + "ln_2.weight"], w[h + "ln_2.bias"])
        inner = gelu(inner @ w[h + "mlp.c_fc.weight"] + w[h + "mlp.c_fc.bias"], erf)
        x = x + inner @ w[h + "mlp.c_proj.weight"] + w[h + "mlp.c_proj.bias"]
    x = layer_norm(x, w["ln_f.weight"], w["ln_f.bias"])
    return x @ w["wte.weight"].T


def adamw(w, gradients, norm):
    """One step from zero moments, after clipping to CLIP; matrices decay."""
    scale = min(1.0, CLIP / norm)
    stepped = {}
    for name, value in w.items():
        g = gradients[name] * scale
        m = (1 - BETA1) * g / (1 - BETA1)
        v = (1 - BETA2) * g * g / (1 - BETA2)
        decay = DECAY if value.dim() == 2 else 0.0
        stepped[name] = value.detach() * (1 - LR * decay) - LR * m / (torch.sqrt(v) + ADAM_EPS)
    return stepped


CODES = {torch.float32: ("F32", "f"), torch.float64: ("F64", "d"), torch.int32: ("I32", "i"), torch.bfloat16: ("BF16", "h")}


def write_safetensors(path, tensors, metadata):
    header, data, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        dtype, code = CODES[tensor.dtype]
        flat = tensor.contiguous().flatten()
        values = array.array(code, (flat.view(torch.int16) if code == "h" else flat).tolist())
        if sys.byteorder == "big":
            values.byteswap()
        raw = values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        data.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def run(stored, tokens, targets, scaled=True, erf=False):
    w = {name: value.to(torch.float64).requires_grad_() for name, value in stored.items()}
    logits = forward(w, tokens, scaled, erf)
    loss = torch.nn.functional.cross_entropy(logits.view(-1, V), targets.reshape(-1))
    loss.backward()
    gradients = {name: value.grad for name, value in w.items()}
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    return w, logits.detach(), loss.detach(), gradients, norm


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    stored = draw_weights()
    generator = torch.Generator().manual_seed(SEED + 1)
    text = torch.randint(0, V, (B, T + 1), generator=generator)
    tokens, targets = text[:, :-1], text[:, 1:]
    w, logits, loss, gradients, norm = run(stored, tokens, targets)
    expected = {
        "tokens": tokens.to(torch.int32),
        "targets": targets.to(torch.int32),
        "logits": logits.to(torch.float32),
        "loss": loss,
        "gradient_norm": torch.tensor(norm, dtype=torch.float64),
    }
    for name, value in adamw(w, gradients, norm).items():
        expected["grad." + name] = gradients[name].to(torch.float32)
        expected["step." + name] = value.to(torch.float32)
    wrong = {}
    for kind, options in (("unscaled", {"scaled": False}), ("erf", {"erf": True})):
        _, _, wrong_loss, wrong_gradients, _ = run(stored, tokens, targets, **options)
        wrong[kind + ".loss"] = wrong_loss
        for name, g in wrong_gradients.items():
            if g.dim() == 1:
                wrong[f"{kind}.grad.{name}"] = g.to(torch.float32)
    about = {"made_by": "tests/golden/make_golden.py", "torch": torch.__version__, "seed": str(SEED)}
    for kind, tensors in (("weights", stored), ("expected", expected), ("wrong", wrong)):
        write_safetensors(f"{sys.argv[1]}/gpt2_nano_{kind}.safetensors", tensors, about)
    print(f"loss {float(loss):.12f}, gradient norm {norm:.12f}")


if __name__ == "__main__":
    main()
