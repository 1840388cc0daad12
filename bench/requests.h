/* Valid requests, encoded once: the measured loop only patches a correlation id (and a fetch offset) into them. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include "wire.h"
#include <time.h>

enum { CORRELATION_AT = 8 };

/* `prefix` bytes are copied and patched for each request, the tail behind them is sent from one shared place. */
typedef struct {
    Buffer bytes;
    size_t prefix;
    size_t fetch_offset_at; /* 0: not a fetch */
    size_t acks_at;         /* 0: not a produce */
    uint32_t batch_bytes, batch_records;
} Request;

static void put_varint(Buffer *b, int64_t v) { put_uvarint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63)); }
static void put_compact_string(Buffer *b, const char *s) {
    put_uvarint(b, strlen(s) + 1);
    put_bytes(b, s, strlen(s));
}

static void put_record(Buffer *b, uint32_t delta, uint32_t value_bytes, uint64_t *seed) {
    Buffer body = {0};
    put8(&body, 0);
    put_varint(&body, 0);
    put_varint(&body, delta);
    put_varint(&body, -1);
    put_varint(&body, value_bytes);
    for (uint32_t i = 0; i < value_bytes; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        put8(&body, (uint8_t)(*seed >> 56));
    }
    put_varint(&body, 0);
    put_varint(b, (int64_t)body.length);
    put_bytes(b, body.data, body.length);
    free(body.data);
}

/* As many records of `value_bytes` as fit in `limit` bytes, at least one. */
static Buffer encode_batch(uint32_t value_bytes, uint32_t limit, uint32_t *records) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, seed = 1;
    Buffer b = {0};
    memset(grow(&b, BATCH_HEADER), 0, BATCH_HEADER);
    uint32_t count = 0;
    do put_record(&b, count++, value_bytes, &seed);
    while (b.length + value_bytes + 16 <= limit);
    uint8_t *p = b.data;
    set32(p + 8, (uint32_t)b.length - 12);
    set32(p + 12, 0xffffffffu);
    p[16] = 2;
    set32(p + BATCH_LAST_DELTA, count - 1);
    set64(p + 27, now_ms);
    set64(p + 35, now_ms);
    memset(p + 43, 0xff, 14); /* no producer id, epoch, sequence */
    set32(p + 57, count);
    set32(p + BATCH_CRC, crc32c(p + BATCH_ATTRIBUTES, b.length - BATCH_ATTRIBUTES));
    *records = count;
    return b;
}

/* One that somebody else encoded, compressed perhaps. */
static Buffer read_batch(const char *path, uint32_t *records) {
    Buffer b = {0};
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    if (size < BATCH_HEADER || fread(grow(&b, size), 1, size, file) != size) die(path);
    fclose(file);
    *records = get32(b.data + 57);
    return b;
}

static void put_header(Buffer *b, uint16_t key, uint16_t version) {
    put32(b, 0);
    put16(b, key);
    put16(b, version);
    put32(b, 0);
    put16(b, 5);
    put_bytes(b, "bench", 5);
    put8(b, 0);
}

static Request produce_request(const char *topic, uint32_t partition, int acks, const Buffer *batch, uint32_t records) {
    Request r = {.batch_bytes = (uint32_t)batch->length, .batch_records = records};
    Buffer *b = &r.bytes;
    put_header(b, API_PRODUCE, PRODUCE_VERSION);
    put8(b, 0);
    r.acks_at = b->length;
    put16(b, (uint16_t)acks);
    r.prefix = b->length;
    put32(b, 30000);
    put8(b, 2);
    put_compact_string(b, topic);
    put8(b, 2);
    put32(b, partition);
    put_uvarint(b, batch->length + 1);
    put_bytes(b, batch->data, batch->length);
    put8(b, 0);
    put8(b, 0);
    put8(b, 0);
    set32(b->data, (uint32_t)b->length - 4);
    return r;
}

static Request fetch_request(const char *topic, uint32_t partition, uint32_t max_bytes) {
    Request r = {0};
    Buffer *b = &r.bytes;
    put_header(b, API_FETCH, FETCH_VERSION);
    put32(b, (uint32_t)-1);
    put32(b, 500);
    put32(b, 1);
    put32(b, 64 << 20);
    put8(b, 0);
    put32(b, 0);
    put32(b, (uint32_t)-1);
    put8(b, 2);
    put_compact_string(b, topic);
    put8(b, 2);
    put32(b, partition);
    put32(b, (uint32_t)-1);
    r.fetch_offset_at = b->length;
    put64(b, 0);
    put32(b, (uint32_t)-1);
    put64(b, (uint64_t)-1);
    put32(b, max_bytes);
    put8(b, 0);
    put8(b, 0);
    put8(b, 1);
    put8(b, 1);
    put8(b, 0);
    set32(b->data, (uint32_t)b->length - 4);
    r.prefix = b->length;
    return r;
}

/* Where the parts of a reply lie; replies name one topic of known length and one partition. */
static size_t produce_error_at(const char *topic) { return 4 + 5 + 1 + 1 + strlen(topic) + 1 + 4; }
static size_t fetch_error_at(const char *topic) { return 4 + 5 + 4 + 2 + 4 + 1 + 1 + strlen(topic) + 1 + 4; }
static size_t fetch_records_at(const char *topic) { return fetch_error_at(topic) + 2 + 8 + 8 + 8 + 1 + 4; }

#endif
