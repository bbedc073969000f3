#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make the golden files: what PyTorch says about one step of a GPT-2, and of models with Llama's layers. Debian's python3-torch (1.13) is enough.

    /usr/bin/python3 tests/golden/make_golden.py tests/golden

writes gpt2_nano_weights.safetensors (BF16, so that 16-bit runs start from the same numbers) and
gpt2_nano_expected.safetensors: tokens, targets, logits, loss, gradient norm, "grad.NAME" for every parameter and
"step.NAME", its value after one AdamW step with clipping. All is computed in float64 and stored as F32, the loss and the
norm as F64. Names and shapes are Hugging Face's (Conv1D weights are [in, out]). The model is written out here, from
the formulas, so that it shares nothing with Yoke but the file format.

gpt2_nano_wrong.safetensors holds losses and the gradients of all vectors of two wrong models, "unscaled.…" (attention
scores not divided by the root of the head's width) and "erf.…" (GELU by erf): the tests show by it that the gates notice.

llama_nano_*.safetensors are the same of a Llama (weights are [out, in], the head is not tied, two query heads share a K/V head); its wrong
models are "pairs.…" (neighbouring channels turned together, not channel i with i + D / 2) and "groups.…" (head h reads K/V head h mod Hkv).

qwen2_nano_*.safetensors are the same of a Qwen2 (biases of q, k and v; the head is tied). The numbers are those of transformers' own
model, and the formulas above must agree with it. Its wrong models are "plain.…" (without the biases) and "late.…" (biases added to q and k
behind the rotation). For these files install transformers (4.44.2 was used). Without it they are not made.

mistral_nano_*.safetensors are the same of a Mistral whose head_dim is not C / H, also by transformers. Its wrong models are "scale.…"
(scores divided by the root of C / H) and "angles.…" (angles of a head with C / H channels).
"""
import array
import json
import math
import struct
import sys

import torch

try:
    import transformers
except ImportError:
    transformers = None

L, C, H, T, V, B = 2, 64, 4, 64, 256, 2
EPS = 1e-5
LR, BETA1, BETA2, ADAM_EPS, DECAY, CLIP = 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0
SEED = 20240520
HKV = 2


class Llama:
    """The sizes and properties of a model with Llama's layers."""

    def __init__(self, F, D=C // H, eps=1e-5, theta=10000.0, bias=False, tied=False):
        self.F, self.D, self.eps, self.theta, self.bias, self.tied = F, D, eps, theta, bias, tied

    def names_and_shapes(self):
        q, kv = H * self.D, HKV * self.D
        yield "model.embed_tokens.weight", (V, C)
        for i in range(L):
            h = f"model.layers.{i}."
            yield h + "input_layernorm.weight", (C,)
            yield h + "self_attn.q_proj.weight", (q, C)
            yield h + "self_attn.k_proj.weight", (kv, C)
            yield h + "self_attn.v_proj.weight", (kv, C)
            yield h + "self_attn.o_proj.weight", (C, q)
            if self.bias:
                yield h + "self_attn.q_proj.bias", (q,)
                yield h + "self_attn.k_proj.bias", (kv,)
                yield h + "self_attn.v_proj.bias", (kv,)
            yield h + "post_attention_layernorm.weight", (C,)
            yield h + "mlp.gate_proj.weight", (self.F, C)
            yield h + "mlp.up_proj.weight", (self.F, C)
            yield h + "mlp.down_proj.weight", (C, self.F)
        yield "model.norm.weight", (C,)
        if not self.tied:
            yield "lm_head.weight", (V, C)

    def rms_norm(self, x, gain):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * gain

    def rotate(self, x, pairs, width):
        """x [B, heads, T, D] by position: channel i with i + D / 2, or, wrongly, neighbours."""
        D = x.shape[-1]
        angle = torch.arange(T, dtype=torch.float64)[:, None] * self.theta ** (-torch.arange(0, D, 2, dtype=torch.float64) / (width or D))
        a, b = (x[..., 0::2], x[..., 1::2]) if pairs else (x[..., : D // 2], x[..., D // 2 :])
        turned = a * torch.cos(angle) - b * torch.sin(angle), b * torch.cos(angle) + a * torch.sin(angle)
        return torch.stack(turned, dim=-1).flatten(-2) if pairs else torch.cat(turned, dim=-1)

    def attention(self, x, w, h, pairs, groups, plain, late, scale, angles):
        def heads(values, n):
            return values.view(B, -1, n, self.D).transpose(1, 2) if values.dim() == 3 else values.view(n, 1, self.D)

        qkv = (("q_proj", H), ("k_proj", HKV), ("v_proj", HKV))
        q, k, v = (heads(x @ w[h + name + ".weight"].T, n) for name, n in qkv)
        if self.bias and not plain:
            bias = [heads(w[h + name + ".bias"], n) for name, n in qkv]
            v = v + bias[2]
            q, k = (q, k) if late else (q + bias[0], k + bias[1])
        q, k = (self.rotate(x, pairs, C // H if angles else None) for x in (q, k))
        if late:
            q, k = q + bias[0], k + bias[1]
        of_head = torch.tensor([i % HKV if groups else i // (H // HKV) for i in range(H)])
        k, v = k[:, of_head], v[:, of_head]
        visible = torch.tril(torch.ones(T, T, dtype=torch.bool))
        p = torch.softmax((q @ k.transpose(2, 3) / math.sqrt(C // H if scale else self.D)).masked_fill(~visible, -math.inf), dim=-1)
        return (p @ v).transpose(1, 2).reshape(B, T, H * self.D) @ w[h + "o_proj.weight"].T

    def forward(self, w, tokens, pairs=False, groups=False, plain=False, late=False, scale=False, angles=False):
        x = w["model.embed_tokens.weight"][tokens]
        for i in range(L):
            h = f"model.layers.{i}."
            x = x + self.attention(self.rms_norm(x, w[h + "input_layernorm.weight"]), w, h + "self_attn.", pairs, groups, plain, late, scale, angles)
            inner = self.rms_norm(x, w[h + "post_attention_layernorm.weight"])
            gate, up = inner @ w[h + "mlp.gate_proj.weight"].T, inner @ w[h + "mlp.up_proj.weight"].T
            x = x + (gate * torch.sigmoid(gate) * up) @ w[h + "mlp.down_proj.weight"].T
        return self.rms_norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight" if self.tied else "lm_head.weight"].T


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


def draw_weights(list_of):
    """Larger than a fresh model's, so that every term of the formulas shows in the result."""
    generator = torch.Generator().manual_seed(SEED)
    weights = {}
    for name, shape in list_of():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        is_gain = (".ln_" in "." + name or "norm." in name) and name.endswith(".weight")
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


def forward(w, tokens, scaled=True, erf=False):
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


def run(model, stored, tokens, targets, **options):
    w = {name: value.to(torch.float64).requires_grad_() for name, value in stored.items()}
    logits = model(w, tokens, **options)
    loss = torch.nn.functional.cross_entropy(logits.view(-1, V), targets.reshape(-1))
    loss.backward()
    gradients = {name: torch.zeros_like(value) if value.grad is None else value.grad for name, value in w.items()}
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    return w, logits.detach(), loss.detach(), gradients, norm


def run_transformers(model, stored, tokens, targets):
    """The same by a model of transformers. `stored` are all of its weights, but for a tied head."""
    model = model.to(torch.float64)
    missing, unknown = model.load_state_dict({name: value.to(torch.float64) for name, value in stored.items()}, strict=False)
    assert not unknown and set(missing) <= ({"lm_head.weight"} if model.config.tie_word_embeddings else set()), (missing, unknown)
    model.tie_weights()
    w = dict(model.named_parameters())
    assert set(w) == set(stored)
    logits = model(input_ids=tokens, use_cache=False).logits.to(torch.float64)
    loss = torch.nn.functional.cross_entropy(logits.view(-1, V), targets.reshape(-1))
    loss.backward()
    gradients = {name: w[name].grad for name in stored}
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    return {name: w[name] for name in stored}, logits.detach(), loss.detach(), gradients, norm


def far(a, b):
    return float((a - b).norm() / b.norm())


def make(folder, family, list_of, model, wrongs, theirs=None):
    stored = draw_weights(list_of)
    generator = torch.Generator().manual_seed(SEED + 1)
    text = torch.randint(0, V, (B, T + 1), generator=generator)
    tokens, targets = text[:, :-1], text[:, 1:]
    w, logits, loss, gradients, norm = run(model, stored, tokens, targets)
    if theirs:
        ours, ours_logits = gradients, logits
        w, logits, loss, gradients, norm = run_transformers(theirs, stored, tokens, targets)
        # transformers computes the angles, and in some versions the softmax, in float32
        apart = max([far(ours_logits, logits)] + [far(ours[name], g) for name, g in gradients.items()])
        print(f"{family}: the formulas and transformers differ by {apart:.1e}")
        assert apart < 1e-6
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
    for kind, options in wrongs:
        _, _, wrong_loss, wrong_gradients, _ = run(model, stored, tokens, targets, **options)
        wrong[kind + ".loss"] = wrong_loss
        for name, g in wrong_gradients.items():
            if g.dim() == 1:
                wrong[f"{kind}.grad.{name}"] = g.to(torch.float32)
    about = {"made_by": "tests/golden/make_golden.py", "torch": torch.__version__, "seed": str(SEED)}
    if theirs:
        about["transformers"] = transformers.__version__
    for kind, tensors in (("weights", stored), ("expected", expected), ("wrong", wrong)):
        write_safetensors(f"{folder}/{family}_nano_{kind}.safetensors", tensors, about)
    print(f"{family}: loss {float(loss):.12f}, gradient norm {norm:.12f}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    make(sys.argv[1], "gpt2", names_and_shapes, forward, (("unscaled", {"scaled": False}), ("erf", {"erf": True})))
    llama = Llama(F=176)
    make(sys.argv[1], "llama", llama.names_and_shapes, llama.forward, (("pairs", {"pairs": True}), ("groups", {"groups": True})))
    if not transformers:
        sys.exit("transformers is not installed: the files of the other models are not made")

    def sizes(m):
        return {"hidden_size": C, "intermediate_size": m.F, "num_hidden_layers": L, "num_attention_heads": H, "num_key_value_heads": HKV,
                "vocab_size": V, "max_position_embeddings": T, "rms_norm_eps": m.eps, "rope_theta": m.theta, "tie_word_embeddings": m.tied,
                "attn_implementation": "eager"}

    qwen2 = Llama(F=96, eps=1e-6, bias=True, tied=True)
    make(sys.argv[1], "qwen2", qwen2.names_and_shapes, qwen2.forward, (("plain", {"plain": True}), ("late", {"late": True})),
         transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes(qwen2))))
    mistral = Llama(F=96, D=24)
    make(sys.argv[1], "mistral", mistral.names_and_shapes, mistral.forward, (("scale", {"scale": True}), ("angles", {"angles": True})),
         transformers.MistralForCausalLM(transformers.MistralConfig(head_dim=mistral.D, sliding_window=None, **sizes(mistral))))


if __name__ == "__main__":
    main()
