/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one callback for the process. */
#include "core/base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static yoke_log_function callback;
static void *callback_context;
static atomic_int most_level = -1;

void yoke_log_set(yoke_log_function function, void *context, yoke_log_level most)
{
    pthread_mutex_lock(&lock);
    callback = function;
    callback_context = context;
    atomic_store(&most_level, function ? (int)most : -1);
    pthread_mutex_unlock(&lock);
}

/* In a child process no thread is inside the callback, whatever the copied lock says. */
void yokei_log_reset(void) { pthread_mutex_init(&lock, NULL); }

void yoke_log(yoke_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&most_level, memory_order_relaxed)) return;
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (callback) callback(callback_context, level, text);
    pthread_mutex_unlock(&lock);
}
