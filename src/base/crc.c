/* CRC-32C, the sum of every Kafka batch, computed by ISA-L (which picks the machine's instructions at run time).
 *
 * Happy path: one call. ISA-L neither inverts its input nor its output, and counts in int: both are mended here.
 * Failure modes: none.
 * Runs on: any thread. */
#include "base/crc.h"

#include <isa-l/crc.h>

#define CRC_STEP_BYTES ((size_t)1 << 30)

uint32_t crc32c(const void *p, size_t n) {
    return crc32c_more(0, p, n);
}

uint32_t crc32c_more(uint32_t crc, const void *p, size_t n) {
    uint8_t *at = (uint8_t *)(uintptr_t)p;         /* ISA-L reads only, but its prototype forgot const */
    uint32_t state = ~crc;
    while (n > 0) {
        size_t step = n < CRC_STEP_BYTES ? n : CRC_STEP_BYTES;
        state = crc32_iscsi(at, (int)step, state);
        at += step;
        n -= step;
    }
    return ~state;
}
