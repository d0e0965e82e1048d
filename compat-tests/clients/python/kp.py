"""kafka-python, 2.0.2 and the newest with one text: what the old one lacks is skipped."""
import time

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic

from contract import Lacks, Until, main, records_of


class KafkaPython:
    client = "kafka-python"
    version = kafka.__version__

    def __init__(self, broker, limit_s):
        self.base, self.limit = {"bootstrap_servers": broker}, limit_s
        self.admin_ = None

    def close(self):
        if self.admin_:
            self.admin_.close()

    @property
    def admin(self):
        self.admin_ = self.admin_ or KafkaAdminClient(**self.base, request_timeout_ms=self.limit * 1000)
        return self.admin_

    def create(self, step):
        self.admin.create_topics([NewTopic(step["topic"], step["partitions"], 1, topic_configs=step["configs"])])

    def list(self, _):
        return {"topics": sorted(self.admin.list_topics())}

    def describe(self, step):
        told = self.admin.describe_topics([step["topic"]])[0]
        return {"partitions": len(told["partitions"])}

    def produce(self, step):
        known = "enable_idempotence" in KafkaProducer.DEFAULT_CONFIG
        more = {"enable_idempotence": step["idempotent"]} if known else {}
        producer = KafkaProducer(**self.base, **more, acks={-1: "all"}.get(step["acks"], step["acks"]), linger_ms=step["linger_ms"],
                                 compression_type={"none": None}.get(step["codec"], step["codec"]), retries=5)
        try:
            sent = [producer.send(step["topic"], v, k, h, p, t) for p, t, k, v, h in records_of(step["records"])]
            producer.flush(self.limit)
            return {"offsets": [f.get(self.limit).offset for f in sent]}
        finally:
            producer.close(self.limit)

    def consumer(self):
        return KafkaConsumer(**self.base, auto_offset_reset="none", enable_auto_commit=False, check_crcs=True, fetch_max_wait_ms=100)

    def starts(self, consumer, step, parts):
        if step["from"] == "time":
            told = consumer.offsets_for_times({tp: step["time"] for tp in parts})
            return [told[tp].offset if told[tp] else -1 for tp in parts]
        return [0] * len(parts) if step["from"] == "earliest" else step["offsets"]

    def consume(self, step):
        parts = [TopicPartition(step["topic"], p) for p in range(len(step["until"]))]
        consumer = self.consumer()
        try:
            starts = self.starts(consumer, step, parts)
            left, deadline = Until(starts, step["until"]), time.monotonic() + self.limit
            open_ = [parts[p] for p in left.open]
            consumer.assign(open_)
            if step["from"] == "earliest":
                consumer.seek_to_beginning(*open_)
            else:
                for tp in open_:
                    consumer.seek(tp, starts[tp.partition])
            while left.open:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"partitions {sorted(left.open)} did not come to their ends")
                for records in consumer.poll(500).values():
                    for r in records:
                        left.saw(r.partition, r.offset)
                        yield r.partition, r.offset, r.timestamp, r.key, r.value, r.headers
            return starts
        finally:
            consumer.close()

    def offsets(self, step):
        parts = [TopicPartition(step["topic"], p) for p in range(step["partitions"])]
        consumer = self.consumer()
        first, end = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
        consumer.close()
        return {"earliest": [first[tp] for tp in parts], "latest": [end[tp] for tp in parts]}

    def resource(self, step, **more):
        return ConfigResource(ConfigResourceType.TOPIC, step["topic"], **more)

    def configs(self, step):
        told = self.admin.describe_configs([self.resource(step)])
        if isinstance(told, dict):                   # the newest: {type: {name: {key: {...}}}}
            entries = next(iter(told.values()))[step["topic"]]
            return {"configs": {k: e["value"] for k, e in entries.items()}}
        return {"configs": {e[0]: e[1] for answer in told for r in answer.resources for e in r[4]}}

    def alter(self, step):
        self.admin.alter_configs([self.resource(step, configs=step["configs"])])

    def grow(self, step):
        self.admin.create_partitions({step["topic"]: NewPartitions(step["partitions"])})

    def trim(self, step):
        if not hasattr(self.admin, "delete_records"):
            raise Lacks("no delete_records")
        told = self.admin.delete_records({TopicPartition(step["topic"], p): o for p, o in enumerate(step["offsets"])})
        low = {tp.partition: r["low_watermark"] for tp, r in told.items()}
        return {"low": [low[p] for p in range(len(step["offsets"]))]}

    def delete(self, step):
        self.admin.delete_topics([step["topic"]])


main(KafkaPython)
