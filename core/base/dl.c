/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are found at run time. */
#include "core/base/base.h"

#include <dlfcn.h>
#include <string.h>

void *yokei_dl_open(const char *const names[], const struct yokei_symbol *symbols, size_t n_symbols,
                    char *reason, size_t reason_bytes)
{
    void *handle = NULL;
    const char *name = NULL;
    for (size_t i = 0; names[i] && !handle; i++) handle = dlopen(name = names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror(); /* the error of the last name that was tried */
        yokei_text(reason, reason_bytes, "%s", why ? why : "no library name given");
        return NULL;
    }
    for (size_t i = 0; i < n_symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            yokei_text(reason, reason_bytes,
                       "%s has no symbol %s: it is too old, or another library of that name", name,
                       symbols[i].name);
            for (size_t j = 0; j < i; j++) memset(symbols[j].slot, 0, sizeof(void *));
            dlclose(handle);
            return NULL;
        }
        memcpy(symbols[i].slot, &address,
               sizeof address); /* POSIX: function pointers and object pointers have the same form */
    }
    return handle;
}
