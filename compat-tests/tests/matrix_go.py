"""The Go clients of the matrix: franz-go, sarama at three protocol versions, kafka-go."""
import subprocess

from raw import matrix
from raw.broker import shell
from raw.harness import Skip
from raw.tools import need


def program(*words):
    def command():
        need("go")
        try:
            return [shell("compat_matrix_go"), *words]
        except (subprocess.CalledProcessError, IndexError):
            raise Skip("the Go clients do not build here (clients/go/go.mod says which Go they need)") from None
    return command


NO_ZSTD = "protocol version 1.0 has no zstd"

matrix.client("franz-go", program("franz-go"))
matrix.client("sarama", program("sarama"))
matrix.client("sarama at 2.1", program("sarama", "2.1.0"))
matrix.client("sarama at 1.0", program("sarama", "1.0.0"), lacks={
    "zstd": NO_ZSTD, "reads Java's": NO_ZSTD, "reads librdkafka's": NO_ZSTD})
matrix.client("kafka-go", program("kafka-go"), lacks={
    "tells-nulls": "the Reader gives empty for null", "idempotent": "the Writer is never idempotent", "trim": "no call for DeleteRecords"})
