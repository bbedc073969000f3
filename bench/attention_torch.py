#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of bench/attention: causal attention as matrix products, on the same numbers, one pass per line of input.

    attention_torch.py INPUTS OUTPUTS B T H HKV D DTYPE THREADS

INPUTS: q, dO [B, H, T, D], k, v [B, HKV, T, D] as f32 in the order q, k, v, dO. Prints "ready"; then for each line of stdin
"check" writes o, dq, dk, dv likewise to OUTPUTS and prints "written"; "step N" makes a pass that does not count and N that do, and prints
"FORWARD BOTH PEAK": seconds of a pass, and by how many bytes the process has grown at most since "ready". Tensors of DTYPE itself, not autocast, which takes nearly three times as long.
"""
import resource
import sys
import time

import torch


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forward(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    p = torch.softmax((q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5 + mask, dim=-1)
    return p @ v


def one_pass(q, k, v, d_o, mask):
    for x in (q, k, v):
        x.grad = None
    begun = time.perf_counter()
    o = forward(q, k, v, mask)
    middle = time.perf_counter()
    o.backward(d_o)
    return middle - begun, time.perf_counter() - begun, o


def main():
    inputs, outputs, batch, length, heads, kv_heads, channels, precision, threads = sys.argv[1:10]
    batch, length, heads, kv_heads, channels = (int(x) for x in (batch, length, heads, kv_heads, channels))
    torch.set_num_threads(int(threads))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
    tensors = []
    with open(inputs, "rb") as file:
        for h in (heads, kv_heads, kv_heads, heads):
            count = batch * h * length * channels
            x = torch.frombuffer(bytearray(file.read(4 * count)), dtype=torch.float32)
            tensors.append(x.view(batch, h, length, channels).to(dtype))
    q, k, v = (x.requires_grad_() for x in tensors[:3])
    mask = torch.full((length, length), float("-inf")).triu(1).to(dtype)
    before = peak()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "check":
            _, _, o = one_pass(q, k, v, tensors[3], mask)
            with open(outputs, "wb") as file:
                for x in (o, q.grad, k.grad, v.grad):
                    file.write(x.detach().float().contiguous().numpy().tobytes())
            print("written", flush=True)
            continue
        count = int(line.split()[1])
        one_pass(q, k, v, tensors[3], mask)
        passes = [one_pass(q, k, v, tensors[3], mask)[:2] for _ in range(count)]
        seconds = [sum(x[i] for x in passes) / count for i in range(2)]
        print(f"{seconds[0]:.9f} {seconds[1]:.9f} {peak() - before}", flush=True)


if __name__ == "__main__":
    main()
