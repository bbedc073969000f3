/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Events. A recorded event is an event of the driver. An armed event is a word of pinned memory: the host
 * completes the event by writing a number to the word, and the queues wait until the word has this number
 * (cuStreamWaitValue32). A function of the host that waits for the signal inside the queue would be simpler,
 * but the driver calls these functions from few threads, so one that waits could keep the very copy from
 * running that the signal depends on. The wait for a word takes no thread.
 *
 * The driver does not know what a queue that waits for a word depends on. Two queues that share one of the
 * device's hardware channels wait for each other's waits, so a program with more streams than channels
 * (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default) must not make a signal depend on another stream.
 */
#include <stdlib.h>

#include "backends/cuda/cuda.h"

struct cuda_event {
    pthread_mutex_t lock; /* because the host may signal from any thread */
    CUevent event;
    bool recorded;          /* the state is that of `event` */
    bool armed;             /* the event waits for a signal. Neither recorded nor armed: complete */
    struct cuda_piece word; /* word.host is NULL before the first arm */
    /*
     * The number that the word gets by the next signal. Numbers only grow, also when the word gets another
     * owner, so a queue that still waits for an earlier number is let go by a later one.
     */
    uint32_t number;
};

static struct cuda_event *cuda_event(const yoke_event *event) { return event->impl; }
static const struct cuda_library *cuda_library_of(const yoke_event *event)
{
    return cuda_device(event->device)->cu;
}

static yoke_status cuda_event_create(yoke_event *event)
{
    YOKE_TRY(yokei_cuda_enter(event->device));
    struct cuda_event *e = calloc(1, sizeof *e);
    yoke_status status = YOKE_OK;
    if (!e) {
        status = yokei_gpu_no_host_memory(event->device, "an event");
    } else {
        const CUresult error = cuda_library_of(event)->cuEventCreate(&e->event, CU_EVENT_DISABLE_TIMING);
        if (error) {
            status = yokei_cuda_fail(event->device, "cuEventCreate", error);
            free(e);
        } else {
            pthread_mutex_init(&e->lock, NULL);
            event->impl = e;
        }
    }
    yokei_cuda_leave(event->device);
    return status;
}

/** Make the event complete. If streams wait for a signal that can no longer come, they are released. */
static void cuda_event_reset(struct cuda_event *e)
{
    if (e->armed) atomic_store(cuda_word(e->word), e->number);
    e->armed = e->recorded = false;
}

static void cuda_event_destroy(yoke_event *event)
{
    struct cuda_event *e = cuda_event(event);
    cuda_event_reset(e);
    if (e->word.host) yokei_cuda_pinned_give(event->device, CUDA_WORDS, e->word);
    struct yokei_error saved;
    yokei_error_save(&saved);
    if (!yokei_cuda_enter(event->device)) {
        cuda_library_of(event)->cuEventDestroy_v2(e->event);
        yokei_cuda_leave(event->device);
    }
    yokei_error_restore(&saved);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static yoke_status cuda_event_record(yoke_event *event, yoke_stream *stream)
{
    struct cuda_event *e = cuda_event(event);
    YOKE_TRY(yokei_cuda_enter(event->device));
    yoke_status status = yokei_cuda_mark(stream);
    pthread_mutex_lock(&e->lock);
    if (!status) {
        const CUresult error = cuda_library_of(event)->cuEventRecord(e->event, cuda_stream(stream)->queue);
        if (error) status = yokei_cuda_fail(event->device, "cuEventRecord", error);
    }
    if (!status) {
        cuda_event_reset(e);
        e->recorded = true;
    }
    pthread_mutex_unlock(&e->lock);
    yokei_cuda_leave(event->device);
    return status;
}

static yoke_status cuda_event_arm(yoke_event *event)
{
    struct cuda_event *e = cuda_event(event);
    yoke_status status = YOKE_OK;
    YOKE_TRY(yokei_cuda_enter(event->device));
    pthread_mutex_lock(&e->lock);
    if (!e->word.host) {
        status = yokei_cuda_pinned_take(event->device, CUDA_WORDS, &e->word);
        if (!status) e->number = atomic_load(cuda_word(e->word));
    }
    if (!status && !e->armed) { /* arming an armed event changes nothing */
        e->number++;
        e->recorded = false;
        e->armed = true;
    }
    pthread_mutex_unlock(&e->lock);
    yokei_cuda_leave(event->device);
    return status;
}

static yoke_status cuda_event_signal(yoke_event *event)
{
    struct cuda_event *e = cuda_event(event);
    pthread_mutex_lock(&e->lock);
    if (e->armed) cuda_event_reset(e);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static yoke_status cuda_event_query(yoke_event *event, bool *complete_out)
{
    struct cuda_event *e = cuda_event(event);
    CUresult error = CUDA_SUCCESS;
    YOKE_TRY(yokei_cuda_enter(event->device));
    pthread_mutex_lock(&e->lock);
    const bool armed = e->armed;
    if (e->recorded) error = cuda_library_of(event)->cuEventQuery(e->event);
    pthread_mutex_unlock(&e->lock);
    yoke_status status = YOKE_OK;
    if (error && error != CUDA_ERROR_NOT_READY)
        status = yokei_cuda_fail(event->device, "work that an event was recorded behind", error);
    else
        *complete_out = !armed && error == CUDA_SUCCESS;
    yokei_cuda_leave(event->device);
    return status;
}

/** Let the queue wait. The context is current, and the event's lock is held. */
static yoke_status wait_in_queue(yoke_stream *stream, yoke_event *event)
{
    const struct cuda_event *e = cuda_event(event);
    const struct cuda_library *cu = cuda_library_of(event);
    CUstream queue = cuda_stream(stream)->queue;
    if (!e->armed && !e->recorded) return YOKE_OK;
    stream->last_op = "yoke_stream_wait";
    YOKE_TRY(yokei_cuda_command(stream));
    const CUresult error = e->armed ? cu->cuStreamWaitValue32_v2(queue, e->word.at, e->number,
                                                                 CU_STREAM_WAIT_VALUE_GEQ)
                                    : cu->cuStreamWaitEvent(queue, e->event, 0);
    return error
               ? yokei_cuda_fail(event->device, e->armed ? "cuStreamWaitValue32" : "cuStreamWaitEvent", error)
               : YOKE_OK;
}

static yoke_status cuda_event_wait(yoke_stream *stream, yoke_event *event)
{
    struct cuda_event *e = cuda_event(event);
    YOKE_TRY(yokei_cuda_enter(event->device));
    pthread_mutex_lock(&e->lock);
    const yoke_status status = wait_in_queue(stream, event);
    pthread_mutex_unlock(&e->lock);
    yokei_cuda_leave(event->device);
    return status;
}

const struct yoke_event_ops yokei_cuda_event_ops = {
    .create = cuda_event_create,
    .destroy = cuda_event_destroy,
    .record = cuda_event_record,
    .arm = cuda_event_arm,
    .signal = cuda_event_signal,
    .query = cuda_event_query,
    .wait = cuda_event_wait,
};
