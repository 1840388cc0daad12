/* What the load generator and the limit server share: big-endian fields, varints, CRC-32C, the record batch. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

enum { API_PRODUCE = 0, API_FETCH = 1, PRODUCE_VERSION = 9, FETCH_VERSION = 12 };
enum { BATCH_HEADER = 61, BATCH_CRC = 17, BATCH_ATTRIBUTES = 21, BATCH_LAST_DELTA = 23 };

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }
static void set32(uint8_t *p, uint32_t v) { p[0] = v >> 24; p[1] = v >> 16; p[2] = v >> 8; p[3] = v; }
static void set64(uint8_t *p, uint64_t v) { set32(p, v >> 32); set32(p + 4, (uint32_t)v); }

/* Advances *p past an unsigned varint. */
static uint64_t get_uvarint(const uint8_t **p) {
    uint64_t value = 0;
    int shift = 0;
    uint8_t byte;
    do {
        byte = *(*p)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    return value;
}

typedef struct {
    uint8_t *data;
    size_t length, capacity;
} Buffer;

static uint8_t *grow(Buffer *b, size_t count) {
    if (b->length + count > b->capacity) {
        b->capacity = (b->length + count) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data) die("realloc");
    }
    uint8_t *at = b->data + b->length;
    b->length += count;
    return at;
}

static void put_bytes(Buffer *b, const void *p, size_t n) { memcpy(grow(b, n), p, n); }
static void put8(Buffer *b, uint8_t v) { *grow(b, 1) = v; }
static void put16(Buffer *b, uint16_t v) { put8(b, v >> 8); put8(b, (uint8_t)v); }
static void put32(Buffer *b, uint32_t v) { set32(grow(b, 4), v); }
static void put64(Buffer *b, uint64_t v) { set64(grow(b, 8), v); }
static void put_uvarint(Buffer *b, uint64_t v) {
    for (; v >= 0x80; v >>= 7) put8(b, (uint8_t)(v | 0x80));
    put8(b, (uint8_t)v);
}

/* CRC-32C. Three interleaved streams keep the crc32 instruction busy; `shift_block` moves a CRC over BLOCK zero bytes. */
enum { CRC_BLOCK = 1024 };
static uint32_t crc_byte[256], shift_block[4][256];

static uint32_t crc_bytes(uint32_t crc, const uint8_t *p, size_t n) {
#ifdef __SSE4_2__
    uint64_t wide = crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
#endif
    while (n--) crc = crc_byte[(crc ^ *p++) & 0xff] ^ crc >> 8;
    return crc;
}

static void crc_init(void) {
    static const uint8_t zeros[CRC_BLOCK];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        crc_byte[i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int lane = 0; lane < 4; lane++) shift_block[lane][i] = crc_bytes(i << (8 * lane), zeros, CRC_BLOCK);
}

static uint32_t crc_shift(uint32_t crc) {
    return shift_block[0][crc & 0xff] ^ shift_block[1][crc >> 8 & 0xff] ^ shift_block[2][crc >> 16 & 0xff] ^
           shift_block[3][crc >> 24];
}

static uint32_t crc32c(const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffffu;
#ifdef __SSE4_2__
    for (; n >= 3 * CRC_BLOCK; p += 3 * CRC_BLOCK, n -= 3 * CRC_BLOCK) {
        uint64_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < CRC_BLOCK; i += 8) {
            uint64_t x, y, z;
            memcpy(&x, p + i, 8);
            memcpy(&y, p + CRC_BLOCK + i, 8);
            memcpy(&z, p + 2 * CRC_BLOCK + i, 8);
            a = _mm_crc32_u64(a, x);
            b = _mm_crc32_u64(b, y);
            c = _mm_crc32_u64(c, z);
        }
        crc = crc_shift(crc_shift((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }
#endif
    return ~crc_bytes(crc, p, n);
}

#endif
