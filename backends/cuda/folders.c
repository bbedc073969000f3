/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The folders in which the libraries of the CUDA toolkit are looked for: the toolkit, the loader's path, and
 * the folders of NVIDIA's Python packages.
 */
#include <stdlib.h>

#include "backends/cuda/cuda.h"

int yokei_cuda_folders(char *list[], int capacity)
{
    static const char packages[] = "/lib/python3*/site-packages/nvidia/*/lib";
    static const char debian[] = "/lib/python3*/dist-packages/nvidia/*/lib";
    struct yokei_folders folders = { list, 0, capacity };
    yokei_folders_match(&folders, getenv("CUDA_HOME"), "/lib64");
    yokei_folders_match(&folders, getenv("CUDA_PATH"), "/lib64");
    yokei_folders_add(&folders, "");
    yokei_folders_match(&folders, "/usr/local", "/cuda*/lib64");
    yokei_folders_match(&folders, getenv("VIRTUAL_ENV"), packages);
    yokei_folders_match(&folders, getenv("CONDA_PREFIX"), "/lib");
    yokei_folders_match(&folders, getenv("CONDA_PREFIX"), packages);
    if (getenv("HOME")) {
        char local[1024];
        yokei_text(local, sizeof local, "%s/.local", getenv("HOME"));
        yokei_folders_match(&folders, local, packages);
    }
    yokei_folders_match(&folders, "/usr/local", packages);
    yokei_folders_match(&folders, "/usr/local", debian);
    yokei_folders_match(&folders, "/usr", packages);
    yokei_folders_match(&folders, "/usr/lib/python3", "/dist-packages/nvidia/*/lib");
    return folders.n;
}
