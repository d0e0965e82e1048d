"""aiokafka: the client for asyncio."""
import asyncio
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from contract import Until, main, records_of


class Aiokafka:
    client = "aiokafka"
    version = aiokafka.__version__

    def __init__(self, broker, limit_s):
        self.base, self.limit = {"bootstrap_servers": broker}, limit_s
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.admin_ = None

    def run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, self.limit))

    def close(self):
        if self.admin_:
            self.run(self.admin_.close())
        self.loop.close()

    async def opened(self):
        if not self.admin_:
            self.admin_ = AIOKafkaAdminClient(**self.base)
            await self.admin_.start()
        return self.admin_

    def admin(self, call, *args, **more):
        async def go():
            return await getattr(await self.opened(), call)(*args, **more)
        return self.run(go())

    def create(self, step):
        told = self.admin("create_topics", [NewTopic(step["topic"], step["partitions"], 1, topic_configs=step["configs"])])
        refuse(e[1:] for e in told.topic_errors)

    def list(self, _):
        return {"topics": sorted(self.admin("list_topics"))}

    def describe(self, step):
        told = self.admin("describe_topics", [step["topic"]])[0]
        return {"partitions": len(told["partitions"])}

    def produce(self, step):
        async def go():
            acks = {-1: "all"}.get(step["acks"], step["acks"])
            producer = AIOKafkaProducer(**self.base, acks=acks, linger_ms=step["linger_ms"], enable_idempotence=step["idempotent"],
                                        compression_type={"none": None}.get(step["codec"], step["codec"]))
            await producer.start()
            try:
                sent = [await producer.send(step["topic"], v, k, p, t, h) for p, t, k, v, h in records_of(step["records"])]
                await producer.flush()
                done = [await f for f in sent]
                return [-1 if d is None else d.offset for d in done]
            finally:
                await producer.stop()
        return {"offsets": self.run(go())}

    def consume(self, step):
        starts, out = self.run(self.read(step))
        yield from out
        return starts

    async def starts(self, consumer, step, parts):
        if step["from"] == "time":
            told = await consumer.offsets_for_times({tp: step["time"] for tp in parts})
            return [told[tp].offset if told[tp] else -1 for tp in parts]
        return [0] * len(parts) if step["from"] == "earliest" else step["offsets"]

    async def read(self, step):
        parts = [TopicPartition(step["topic"], p) for p in range(len(step["until"]))]
        consumer = AIOKafkaConsumer(**self.base, auto_offset_reset="none", enable_auto_commit=False, check_crcs=True, fetch_max_wait_ms=100)
        await consumer.start()
        try:
            starts, out = await self.starts(consumer, step, parts), []
            left, deadline = Until(starts, step["until"]), time.monotonic() + self.limit
            open_ = [parts[p] for p in left.open]
            consumer.assign(open_ or parts)
            if step["from"] == "earliest":
                await consumer.seek_to_beginning(*open_)
            else:
                for tp in open_:
                    consumer.seek(tp, starts[tp.partition])
            while left.open:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"partitions {sorted(left.open)} did not come to their ends")
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    for r in records:
                        left.saw(r.partition, r.offset)
                        out.append((r.partition, r.offset, r.timestamp, r.key, r.value, r.headers))
            return starts, out
        finally:
            await consumer.stop()

    def offsets(self, step):
        async def go():
            parts = [TopicPartition(step["topic"], p) for p in range(step["partitions"])]
            consumer = AIOKafkaConsumer(**self.base)
            await consumer.start()
            try:
                first, end = await consumer.beginning_offsets(parts), await consumer.end_offsets(parts)
                return {"earliest": [first[tp] for tp in parts], "latest": [end[tp] for tp in parts]}
            finally:
                await consumer.stop()
        return self.run(go())

    def configs(self, step):
        told = self.admin("describe_configs", [ConfigResource(ConfigResourceType.TOPIC, step["topic"])])
        refuse(r[:2] for answer in told for r in answer.resources)
        return {"configs": {e[0]: e[1] for answer in told for r in answer.resources for e in r[4]}}

    def alter(self, step):
        told = self.admin("alter_configs", [ConfigResource(ConfigResourceType.TOPIC, step["topic"], configs=step["configs"])])
        refuse(r[:2] for answer in told for r in answer.resources)

    def grow(self, step):
        told = self.admin("create_partitions", {step["topic"]: NewPartitions(step["partitions"])})
        refuse(e[1:] for e in told.topic_errors)

    def trim(self, step):
        asked = {TopicPartition(step["topic"], p): RecordsToDelete(before_offset=o) for p, o in enumerate(step["offsets"])}
        low = {tp.partition: at for tp, at in self.admin("delete_records", asked).items()}
        return {"low": [low[p] for p in range(len(step["offsets"]))]}

    def delete(self, step):
        told = self.admin("delete_topics", [step["topic"]])
        refuse((e[1], None) for e in told.topic_error_codes)


def refuse(errors):
    """(code, message) pairs: the admin client leaves them in the answer."""
    bad = [e for e in errors if e[0]]
    if bad:
        raise RuntimeError(f"the broker refused: {bad}")


main(Aiokafka)
