/* Our errors as Kafka's codes: one switch without default, so that a new err does not compile until it has a code here.
 * Runs on: any. */
#include "api.h"

int16_t errmap_code(err e) {
    switch (e) {
    case ERR_OK: return 0;
    case ERR_OFFSET_RANGE: return 1;
    case ERR_CORRUPT: return 2;
    case ERR_NO_TOPIC: return 3;
    case ERR_NOT_LEADER: return 6;
    case ERR_TIMEOUT: return 7;
    case ERR_BATCH_TOO_LARGE: return 10;
    case ERR_NO_COORDINATOR: return 15;
    case ERR_BAD_TOPIC: return 17;
    case ERR_SEGMENT_TOO_SMALL: return 18;
    case ERR_NOT_ENOUGH_REPLICAS: return 19;
    case ERR_BAD_ACKS: return 21;
    case ERR_DENIED: return 29;                    /* the handler maps it by resource where it is not a topic (S14.9) */
    case ERR_BAD_TIMESTAMP: return 32;
    case ERR_BAD_VERSION: return 35;
    case ERR_TOPIC_EXISTS: return 36;
    case ERR_BAD_PARTITIONS: return 37;
    case ERR_BAD_REPLICATION: return 38;
    case ERR_BAD_ASSIGNMENT: return 39;
    case ERR_BAD_SETTING: return 40;
    case ERR_BAD_REQUEST: return 42;
    case ERR_LIMIT: return 44;                     /* POLICY_VIOLATION: a limit of this broker, the text says which */
    case ERR_SEQUENCE_GAP: return 45;
    case ERR_PRODUCER_FENCED: return 47;
    case ERR_TXN_STATE: return 48;
    case ERR_IO:
    case ERR_NOSPACE:
    case ERR_FENCED:
    case ERR_DAMAGED:
    case ERR_TORN:
    case ERR_AGAIN:
    case ERR_NOMEM:
    case ERR_CLOSING: return 56;                   /* KAFKA_STORAGE_ERROR: retriable, after a look at the metadata */
    case ERR_NO_SESSION: return 70;
    case ERR_BAD_SESSION_EPOCH: return 71;
    case ERR_TOPIC_DELETION_OFF: return 73;
    case ERR_EPOCH_FENCED: return 74;
    case ERR_EPOCH_UNKNOWN: return 75;
    case ERR_BAD_CODEC: return 76;
    case ERR_BAD_RECORD: return 87;
    case ERR_NO_TOPIC_ID: return 100;
    case ERR_TOPIC_ID_DIFFERS: return 103;
    case ERR_SESSION_BY_ID: return 106;
    case ERR_EXISTS:
    case ERR_NOT_FOUND:
    case ERR_LOCKED:
    case ERR_FOREIGN:
    case ERR_NEWER:
    case ERR_COLD:
    case ERR_CANCELLED:
    case ERR_USAGE:
    case ERR_UNREACHABLE:
    case ERR_BAD_FRAME:
    case ERR_INTERNAL:
    case ERR_COUNT: return -1;
    }
    return -1;
}
