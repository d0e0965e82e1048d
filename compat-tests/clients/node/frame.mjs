// The contract of ../README.md for Node clients: reads the plan, does its steps one after another, writes the lines.
// A client is an object with a function per step; a step that it lacks is skipped with the reason in its "lacks".
import { openSync, readFileSync, writeSync } from 'node:fs'

export class Skip extends Error {}

const decode = text => (text === null ? null : Buffer.from(text, 'base64'))
const encode = bytes => (bytes === null || bytes === undefined ? null : bytes.toString('base64'))

export function readRecords (path) {
  return readFileSync(path, 'utf8').split('\n').filter(Boolean).map(line => {
    const r = JSON.parse(line)
    return {
      partition: r.p, time: r.t, key: decode(r.k), value: decode(r.v),
      headers: (r.h ?? []).map(([name, value]) => [name, decode(value)])
    }
  })
}

// Records in the order of the file, cut so that no send holds much more than bytes: each send is one batch a partition.
export function inPieces (records, bytes = 400_000) {
  const out = []
  let size = bytes
  records.forEach((record, index) => {
    if (size + (record.value?.length ?? 0) > bytes) {
      out.push([])
      size = 0
    }
    out.at(-1).push({ ...record, index })
    size += (record.value?.length ?? 0) + (record.key?.length ?? 0) + 100
  })
  return out
}

// Fills offsets from the base offset that each partition of one send got.
export function placeOffsets (offsets, piece, bases) {
  const next = new Map(bases)
  for (const record of piece) {
    const base = next.get(record.partition)
    offsets[record.index] = base === undefined ? -1 : Number(base)
    if (base !== undefined) {
      next.set(record.partition, BigInt(base) + 1n)
    }
  }
}

function within (promise, seconds) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error("the step's time is over")), seconds * 1000)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

function reason (error) {
  const inner = (error.errors ?? []).map(reason)
  const cause = error.cause ? [reason(error.cause)] : []
  return [error.message || String(error), ...inner, ...cause].join(': ')
}

async function doStep (client, step, number, limit, write) {
  const emit = record => write({
    step: number, p: record.partition, o: Number(record.offset), t: Number(record.time), k: encode(record.key), v: encode(record.value),
    h: record.headers.map(([name, value]) => [name, encode(value)])
  })
  try {
    if (client.lacks?.[step.do]) {
      throw new Skip(client.lacks[step.do])
    }
    if (!client[step.do]) {
      throw new Error(`no such step: ${step.do}`)
    }
    return { step: number, ok: true, ...await within(client[step.do](step, emit), limit) }
  } catch (error) {
    return error instanceof Skip
      ? { step: number, skip: error.message }
      : { step: number, ok: false, error: reason(error) }
  }
}

export async function runPlan (name, version, open) {
  const plan = JSON.parse(readFileSync(process.argv[2], 'utf8'))
  const out = openSync(plan.out, 'w')
  const write = line => writeSync(out, JSON.stringify(line) + '\n')
  write({ client: name, version })
  const client = await open(plan.broker)
  for (const [number, step] of plan.steps.entries()) {
    write(await doStep(client, step, number, plan.limit_s, write))
  }
  process.exit(0) // clients keep timers and sockets; every line is written
}
