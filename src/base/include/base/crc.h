/* CRC-32C over ISA-L. crc32c(p, n) is the Castagnoli CRC as Kafka stores it. */
#pragma once

#include "base/types.h"

uint32_t crc32c(const void *p, size_t n);
uint32_t crc32c_more(uint32_t crc, const void *p, size_t n);       /* continue: crc32c_more(0, p, n) == crc32c(p, n) */
