// kafkajs 2.x. Its consumer has no assignment without a group: reading is the matter of the group tests. It has gzip of its own;
// the other codecs are given to it as its users do, here from packages that need no compiler (lz4js would not do: Kafka cannot
// read its frames).
import { createRequire } from 'node:module'
import zstd from '@mongodb-js/zstd'
import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import { inPieces, placeOffsets, readRecords, runPlan } from './frame.mjs'

const { Kafka, logLevel, CompressionTypes, CompressionCodecs, ConfigResourceTypes } = kafkajs
const codecs = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD
}
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4Compress(encoder.buffer), decompress: async bytes => lz4Decompress(bytes)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => zstd.compress(encoder.buffer), decompress: bytes => zstd.decompress(bytes)
})

// Repeated names are an array under one name: their order among other names is lost.
function headersOf (pairs) {
  const out = {}
  for (const [name, value] of pairs) {
    out[name] = name in out ? [out[name]].flat().concat([value]) : value
  }
  return out
}

function client (broker) {
  const kafka = new Kafka({ clientId: 'compat', brokers: [broker], logLevel: logLevel.ERROR, retry: { retries: 3 } })
  const admin = kafka.admin()
  const ready = admin.connect()
  const call = fn => async step => {
    await ready
    return fn(step)
  }
  return {
    lacks: { consume: 'kafkajs assigns partitions through groups only' },
    create: call(async step => {
      const configEntries = Object.entries(step.configs ?? {}).map(([name, value]) => ({ name, value }))
      await admin.createTopics({ topics: [{ topic: step.topic, numPartitions: step.partitions, replicationFactor: 1, configEntries }] })
    }),
    list: call(async () => ({ topics: await admin.listTopics() })),
    describe: call(async step => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [step.topic] })
      return { partitions: topics[0].partitions.length }
    }),
    produce: step => produce(kafka, step),
    offsets: call(async step => {
      const listed = await admin.fetchTopicOffsets(step.topic)
      const at = field => Array.from({ length: step.partitions }, (_, p) => Number(listed.find(o => o.partition === p)[field]))
      return { earliest: at('low'), latest: at('high') }
    }),
    configs: call(async step => {
      const answer = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: step.topic }] })
      return { configs: Object.fromEntries(answer.resources[0].configEntries.map(e => [e.configName, e.configValue])) }
    }),
    alter: call(async step => {
      const configEntries = Object.entries(step.configs).map(([name, value]) => ({ name, value }))
      await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: step.topic, configEntries }] })
    }),
    grow: call(async step => {
      await admin.createPartitions({ topicPartitions: [{ topic: step.topic, count: step.partitions }] })
    }),
    trim: call(async step => {
      await admin.deleteTopicRecords({
        topic: step.topic, partitions: step.offsets.map((offset, partition) => ({ partition, offset: String(offset) }))
      })
      return { low: step.offsets.map(() => -1) }
    }),
    delete: call(async step => admin.deleteTopics({ topics: [step.topic] }))
  }
}

async function produce (kafka, step) {
  const producer = kafka.producer({
    allowAutoTopicCreation: false, idempotent: step.idempotent, maxInFlightRequests: step.idempotent ? 1 : null,
    createPartitioner: () => ({ message }) => message.partition
  })
  await producer.connect()
  const records = readRecords(step.records)
  const offsets = new Array(records.length).fill(-1)
  for (const piece of inPieces(records)) {
    const answer = await producer.send({
      topic: step.topic, acks: step.acks, compression: codecs[step.codec],
      messages: piece.map(r => ({ partition: r.partition, key: r.key, value: r.value, timestamp: String(r.time), headers: headersOf(r.headers) }))
    })
    placeOffsets(offsets, piece, answer.map(a => [a.partition, BigInt(a.baseOffset)]))
  }
  await producer.disconnect()
  return { offsets }
}

await runPlan('kafkajs', createRequire(import.meta.url)('kafkajs/package.json').version, client)
