#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of bench/train: the same GPT-2 on the same weights and tokens, one step per line of input.

    train_torch.py WEIGHTS.safetensors TOKENS LAYERS HEADS B T PRECISION THREADS [DEVICE [eager|compile]]

TOKENS: B * (T + 1) int32. Prints "ready", then for each line "step" on stdin one line "LOSS SECONDS" (forward, backward,
clipping and AdamW). DEVICE: cpu (default) or cuda:N. On a GPU, attention is PyTorch's fused one, and AdamW is fused.
compile: the model is compiled by torch.compile.
"""
import json
import struct
import sys
import time

import torch
import torch.nn.functional as F


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        tensors[name] = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin).view(about["shape"]).clone()
    return tensors


def attention(q, k, v, mask):
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    p = F.softmax((q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5 + mask, dim=-1)
    return p.to(v.dtype) @ v


def forward(w, tokens, layers, heads, mask):
    batch, length = tokens.shape
    x = F.embedding(tokens, w["wte.weight"]) + w["wpe.weight"][:length]
    channels = x.shape[-1]
    for i in range(layers):
        h = f"h.{i}."
        y = F.layer_norm(x, (channels,), w[h + "ln_1.weight"], w[h + "ln_1.bias"])
        qkv = y @ w[h + "attn.c_attn.weight"] + w[h + "attn.c_attn.bias"]
        q, k, v = (t.view(batch, length, heads, channels // heads).transpose(1, 2) for t in qkv.split(channels, dim=2))
        y = attention(q, k, v, mask).transpose(1, 2).reshape(batch, length, channels)
        x = x + y @ w[h + "attn.c_proj.weight"] + w[h + "attn.c_proj.bias"]
        y = F.layer_norm(x, (channels,), w[h + "ln_2.weight"], w[h + "ln_2.bias"])
        y = F.gelu(y @ w[h + "mlp.c_fc.weight"] + w[h + "mlp.c_fc.bias"], approximate="tanh")
        x = x + y @ w[h + "mlp.c_proj.weight"] + w[h + "mlp.c_proj.bias"]
    x = F.layer_norm(x, (channels,), w["ln_f.weight"], w["ln_f.bias"])
    return x @ w["wte.weight"].T


def main():
    path, tokens_path, layers, heads, batch, length, precision, threads = sys.argv[1:9]
    device, mode = (sys.argv[9:11] + ["cpu", "eager"][len(sys.argv) - 9:])[:2]
    layers, heads, batch, length = int(layers), int(heads), int(batch), int(length)
    torch.set_num_threads(int(threads))
    gpu = device != "cpu"
    w = {name: t.to(device).requires_grad_() for name, t in read_safetensors(path).items()}
    with open(tokens_path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.int32).view(batch, length + 1).long().to(device)
    tokens, targets = text[:, :-1], text[:, 1:]
    mask = None if gpu else torch.full((length, length), float("-inf")).triu(1)
    groups = [{"params": [t for t in w.values() if t.dim() == 2], "weight_decay": 0.1},
              {"params": [t for t in w.values() if t.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if gpu else {"foreach": True}))
    model = torch.compile(forward) if mode == "compile" else forward
    print("ready", flush=True)
    for _ in sys.stdin:
        begun = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda" if gpu else "cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits = model(w, tokens, layers, heads, mask)
        loss = F.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        optimizer.step()
        value = float(loss.detach())
        if gpu:
            torch.cuda.synchronize()
        print(f"{value:.9f} {time.perf_counter() - begun:.6f}", flush=True)


if __name__ == "__main__":
    main()
