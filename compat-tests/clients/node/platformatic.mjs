// @platformatic/kafka 1.x. Its streams belong to groups; reading by assignment is its fetch call, one request after another.
import { Admin, Consumer, Producer, allowedCompressionsAlgorithms, compressionsAlgorithms } from '@platformatic/kafka'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { readFileSync } from 'node:fs'
import { Skip, inPieces, placeOffsets, readRecords, runPlan } from './frame.mjs'

const EARLIEST = -2n
const LATEST = -1n
const TOPIC = 2
const SET = 0

function headersOf (pairs) {
  return new Map(pairs.map(([name, value]) => [Buffer.from(name), value])) // each name a key of its own: repeated ones stay
}

function client (broker) {
  const base = { clientId: 'compat', bootstrapBrokers: [broker], retries: 3, retryDelay: 100 }
  const admin = new Admin(base)
  const describe = async topic => (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)

  async function offsetsAt (topic, count, timestamp) {
    const partitions = Array.from({ length: count }, (_, partitionIndex) => ({ partitionIndex, timestamp }))
    const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions }] })
    return partitions.map(p => Number(listed.partitions.find(l => l.partitionIndex === p.partitionIndex).offset))
  }

  async function startsOf (step) {
    if (step.from === 'offsets') {
      return step.offsets
    }
    return offsetsAt(step.topic, step.until.length, step.from === 'time' ? BigInt(step.time) : EARLIEST)
  }

  async function consume (step, emit) {
    const start = await startsOf(step)
    const consumer = new Consumer({ ...base, groupId: 'compat-unused' })
    const { id, partitions } = await describe(step.topic)
    for (const [partition, from] of start.entries()) {
      let next = from
      while (next >= 0 && next < step.until[partition]) {
        const answer = await consumer.fetch({
          node: partitions[partition].leader, minBytes: 1, maxBytes: 4 << 20, maxWaitTime: 200,
          topics: [{
            topicId: id,
            partitions: [{ partition, currentLeaderEpoch: -1, fetchOffset: BigInt(next), lastFetchedEpoch: -1, partitionMaxBytes: 2 << 20 }]
          }]
        })
        next = emitBatches(answer.responses[0].partitions[0].records ?? [], partition, next, step.until[partition], emit)
      }
    }
    await consumer.close()
    return { start }
  }

  return {
    create: step => admin.createTopics({
      topics: [step.topic], partitions: step.partitions, replicas: 1,
      configs: Object.entries(step.configs ?? {}).map(([name, value]) => ({ name, value }))
    }).then(() => undefined),
    list: async () => ({ topics: await admin.listTopics() }),
    describe: async step => ({ partitions: (await describe(step.topic)).partitions.length }),
    produce: step => produce(base, step),
    consume,
    offsets: async step => ({
      earliest: await offsetsAt(step.topic, step.partitions, EARLIEST), latest: await offsetsAt(step.topic, step.partitions, LATEST)
    }),
    configs: async step => {
      const [answer] = await admin.describeConfigs({ resources: [{ resourceType: TOPIC, resourceName: step.topic }] })
      return { configs: Object.fromEntries(answer.configs.map(c => [c.name, c.value])) }
    },
    alter: step => admin.incrementalAlterConfigs({
      resources: [{
        resourceType: TOPIC, resourceName: step.topic,
        configs: Object.entries(step.configs).map(([name, value]) => ({ name, value, configOperation: SET }))
      }]
    }),
    grow: step => admin.createPartitions({ topics: [{ name: step.topic, count: step.partitions, assignments: null }] }),
    trim: async step => {
      const partitions = step.offsets.map((offset, partition) => ({ partition, offset: BigInt(offset) }))
      const [answer] = await admin.deleteRecords({ topics: [{ name: step.topic, partitions }] })
      return { low: step.offsets.map((_, p) => Number(answer.partitions.find(x => x.partition === p).lowWatermark)) }
    },
    delete: step => admin.deleteTopics({ topics: [step.topic] }).then(() => undefined)
  }
}

function emitBatches (batches, partition, from, until, emit) {
  let next = from
  for (const batch of batches) {
    for (const r of batch.records) {
      const offset = Number(batch.firstOffset) + r.offsetDelta
      if (offset >= next && offset < until) {
        emit({
          partition, offset, time: batch.firstTimestamp + r.timestampDelta, key: r.key, value: r.value,
          headers: r.headers.map(([name, value]) => [name.toString(), value])
        })
      }
      next = Math.max(next, offset + 1)
    }
  }
  return next
}

async function produce (base, step) {
  if (!allowedCompressionsAlgorithms.includes(step.codec) || !compressionsAlgorithms[step.codec].available) {
    throw new Skip(`this Node has no ${step.codec}`)
  }
  const producer = new Producer({ ...base, idempotent: step.idempotent })
  const records = readRecords(step.records)
  const offsets = new Array(records.length).fill(-1)
  for (const piece of inPieces(records)) {
    const answer = await producer.send({
      acks: step.acks, compression: step.codec,
      messages: piece.map(r => ({
        topic: step.topic, partition: r.partition, key: r.key, value: r.value, timestamp: BigInt(r.time), headers: headersOf(r.headers)
      }))
    })
    placeOffsets(offsets, piece, (answer.offsets ?? []).map(o => [o.partition, o.offset]))
  }
  await producer.close()
  return { offsets }
}

const home = dirname(createRequire(import.meta.url).resolve('@platformatic/kafka'))
await runPlan('@platformatic/kafka', JSON.parse(readFileSync(join(home, '..', 'package.json'), 'utf8')).version, client)
