"""confluent-kafka: librdkafka as its newest Python package carries it."""
import time

import confluent_kafka as ck
from confluent_kafka import admin

from contract import Until, main, records_of


class Confluent:
    client = "confluent-kafka"
    version = f"{ck.version() if isinstance(ck.version(), str) else ck.version()[0]}, librdkafka {ck.libversion()[0]}"

    def __init__(self, broker, limit_s):
        self.base, self.limit = {"bootstrap.servers": broker}, limit_s
        self.admin = admin.AdminClient(self.base)

    def close(self):
        pass

    def all(self, futures):
        return {k: f.result(self.limit) for k, f in futures.items()}

    def consumer(self):
        return ck.Consumer({**self.base, "group.id": "matrix", "enable.auto.commit": False, "auto.offset.reset": "error",
                            "check.crcs": True, "fetch.wait.max.ms": 100, "enable.auto.offset.store": False})

    def create(self, step):
        self.all(self.admin.create_topics([admin.NewTopic(step["topic"], step["partitions"], 1, config=step["configs"])]))

    def list(self, _):
        return {"topics": sorted(self.admin.list_topics(timeout=self.limit).topics)}

    def describe(self, step):
        told = self.all(self.admin.describe_topics(ck.TopicCollection([step["topic"]])))[step["topic"]]
        return {"partitions": len(told.partitions)}

    def produce(self, step):
        producer = ck.Producer({**self.base, "compression.type": step["codec"], "acks": step["acks"], "linger.ms": step["linger_ms"],
                                "enable.idempotence": step["idempotent"], "message.timeout.ms": self.limit * 1000})
        records, offsets, errors = records_of(step["records"]), {}, []

        def told(number):
            def delivered(error, message):
                if error:
                    errors.append(str(error))
                offsets[number] = -1 if error or step["acks"] == 0 or message.offset() is None else message.offset()
            return delivered
        for n, (p, t, k, v, h) in enumerate(records):
            while True:
                try:
                    producer.produce(step["topic"], v, k, p, on_delivery=told(n), timestamp=t, headers=h)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(self.limit)
        if left or errors:
            raise RuntimeError(f"{left} not delivered, errors {errors[:3]}")
        return {"offsets": [offsets[n] for n in range(len(records))]}

    def starts(self, consumer, step):
        topic, n = step["topic"], len(step["until"])
        if step["from"] == "time":
            asked = [ck.TopicPartition(topic, p, step["time"]) for p in range(n)]
            told = {tp.partition: tp for tp in consumer.offsets_for_times(asked, timeout=self.limit)}
            bad = [tp.error for tp in told.values() if tp.error]
            if bad:
                raise ck.KafkaException(bad[0])
            return [told[p].offset if told[p].offset >= 0 else -1 for p in range(n)]
        return [0] * n if step["from"] == "earliest" else step["offsets"]

    def consume(self, step):
        consumer = self.consumer()
        try:
            starts = self.starts(consumer, step)
            left, deadline = Until(starts, step["until"]), time.monotonic() + self.limit
            at = [ck.OFFSET_BEGINNING if step["from"] == "earliest" else s for s in starts]
            consumer.assign([ck.TopicPartition(step["topic"], p, at[p]) for p in left.open])
            while left.open:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"partitions {sorted(left.open)} did not come to their ends")
                for m in consumer.consume(500, 0.2):
                    if m.error():
                        raise ck.KafkaException(m.error())
                    left.saw(m.partition(), m.offset())
                    yield m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers()
            return starts
        finally:
            consumer.close()

    def offsets(self, step):
        parts = [ck.TopicPartition(step["topic"], p) for p in range(step["partitions"])]

        def ask(spec):
            told = self.all(self.admin.list_offsets({tp: spec for tp in parts}))
            return [told[tp].offset for tp in parts]
        consumer = self.consumer()
        marks = [consumer.get_watermark_offsets(tp, timeout=self.limit, cached=False) for tp in parts]
        consumer.close()
        earliest, latest = ask(admin.OffsetSpec.earliest()), ask(admin.OffsetSpec.latest())
        assert [tuple(m) for m in marks] == list(zip(earliest, latest)), (marks, earliest, latest)
        return {"earliest": earliest, "latest": latest}

    def resource(self, step, **more):
        return admin.ConfigResource(admin.ConfigResource.Type.TOPIC, step["topic"], **more)

    def configs(self, step):
        told = self.all(self.admin.describe_configs([self.resource(step)]))
        return {"configs": {name: e.value for entries in told.values() for name, e in entries.items()}}

    def alter(self, step):
        entries = [admin.ConfigEntry(n, v, incremental_operation=admin.AlterConfigOpType.SET) for n, v in step["configs"].items()]
        self.all(self.admin.incremental_alter_configs([self.resource(step, incremental_configs=entries)]))

    def grow(self, step):
        self.all(self.admin.create_partitions([admin.NewPartitions(step["topic"], step["partitions"])]))

    def trim(self, step):
        told = self.all(self.admin.delete_records([ck.TopicPartition(step["topic"], p, o) for p, o in enumerate(step["offsets"])]))
        low = {tp.partition: r.low_watermark for tp, r in told.items()}
        return {"low": [low[p] for p in range(len(step["offsets"]))]}

    def delete(self, step):
        self.all(self.admin.delete_topics([step["topic"]]))


main(Confluent)
