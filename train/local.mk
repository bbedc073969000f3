# libyoke-train: layers, models, data, optimizer, checkpoints, loop.
