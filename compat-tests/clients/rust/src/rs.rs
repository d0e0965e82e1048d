//! rskafka: a small client of its own, one batch a call, always acks=all.
use std::collections::BTreeMap;

use chrono::{TimeZone, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client as Kafka, ClientBuilder};
use rskafka::record::Record as Wire;
use tokio::runtime::Runtime;

use crate::frame::{failed, Client, Emit, No, Record, Res, Step, EARLIEST, LATEST};

/// A batch of ours stays clearly below the usual limit of a megabyte.
const BATCH_BYTES: usize = 400_000;
const TIMEOUT_MS: i32 = 10_000;

pub struct Rs {
    rt: Runtime,
    base: Kafka,
}

impl Rs {
    pub fn open(broker: &str) -> Res<Rs> {
        let rt = Runtime::new()?;
        let base = rt.block_on(ClientBuilder::new(vec![broker.to_string()]).client_id("compat").build())?;
        Ok(Rs { rt, base })
    }

    fn partition(&self, topic: &str, partition: i32) -> Res<PartitionClient> {
        let made = self.base.partition_client(topic.to_string(), partition, UnknownTopicHandling::Error);
        Ok(self.rt.block_on(made)?)
    }
}

fn outgoing(r: Record) -> Wire {
    let headers = r.headers.into_iter().map(|(k, v)| (k, v.unwrap_or_default())).collect();
    Wire { key: r.key, value: r.value, headers, timestamp: Utc.timestamp_millis_opt(r.time).unwrap() }
}

fn incoming(partition: i32, offset: i64, r: Wire) -> Record {
    let headers = r.headers.into_iter().map(|(k, v)| (k, Some(v))).collect();
    Record { partition, offset, time: r.timestamp.timestamp_millis(), key: r.key, value: r.value, headers }
}

fn compression(codec: &str) -> Compression {
    match codec {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    }
}

impl Client for Rs {
    fn create(&mut self, s: &Step) -> Res<()> {
        let controller = self.base.controller_client()?;
        Ok(self.rt.block_on(controller.create_topic(s.topic(), s.partitions(), 1, TIMEOUT_MS))?)
    }

    fn list(&mut self) -> Res<Vec<String>> {
        Ok(self.rt.block_on(self.base.list_topics())?.into_iter().map(|t| t.name).collect())
    }

    fn describe(&mut self, topic: &str) -> Res<usize> {
        let all = self.rt.block_on(self.base.list_topics())?;
        match all.into_iter().find(|t| t.name == topic) {
            Some(t) => Ok(t.partitions.len()),
            None => failed("no such topic"),
        }
    }

    fn produce(&mut self, s: &Step, records: Vec<Record>) -> Res<Vec<i64>> {
        if s.number("acks") != -1 || s.flag("idempotent") {
            return Err(No::Cannot("always acks=all, never idempotent"));
        }
        let (topic, codec) = (s.topic(), s.text("codec"));
        let mut offsets = vec![-1; records.len()];
        let mut queues: BTreeMap<i32, Vec<(usize, Record)>> = BTreeMap::new();
        for (i, r) in records.into_iter().enumerate() {
            queues.entry(r.partition).or_default().push((i, r));
        }
        for (p, queue) in queues {
            let part = self.partition(&topic, p)?;
            for piece in pieces(queue) {
                let (places, batch): (Vec<usize>, Vec<Wire>) = piece.into_iter().map(|(i, r)| (i, outgoing(r))).unzip();
                let got = self.rt.block_on(part.produce(batch, compression(&codec)))?;
                for (place, offset) in places.into_iter().zip(got) {
                    offsets[place] = offset;
                }
            }
        }
        Ok(offsets)
    }

    fn offsets_at(&mut self, topic: &str, partitions: i32, at: i64) -> Res<Vec<i64>> {
        let when = match at {
            EARLIEST => OffsetAt::Earliest,
            LATEST => OffsetAt::Latest,
            t => OffsetAt::Timestamp(Utc.timestamp_millis_opt(t).unwrap()),
        };
        (0..partitions).map(|p| Ok(self.rt.block_on(self.partition(topic, p)?.get_offset(when))?)).collect()
    }

    fn consume(&mut self, topic: &str, from: &BTreeMap<i32, i64>, until: &[i64], emit: Emit) -> Res<()> {
        for (&p, &begin) in from {
            let part = self.partition(topic, p)?;
            let mut at = if begin == EARLIEST { self.rt.block_on(part.get_offset(OffsetAt::Earliest))? } else { begin };
            while at < until[p as usize] {
                let (records, _) = self.rt.block_on(part.fetch_records(at, 1..4_000_000, 200))?;
                for r in records {
                    if r.offset >= at && r.offset < until[p as usize] {
                        at = r.offset + 1;
                        emit(incoming(p, r.offset, r.record));
                    }
                }
            }
        }
        Ok(())
    }

    fn configs(&mut self, _: &str) -> Res<BTreeMap<String, String>> {
        Err(No::Cannot("rskafka has no settings calls"))
    }

    fn alter(&mut self, _: &Step) -> Res<()> {
        Err(No::Cannot("rskafka has no settings calls"))
    }

    fn grow(&mut self, _: &Step) -> Res<()> {
        Err(No::Cannot("rskafka cannot add partitions"))
    }

    fn trim(&mut self, s: &Step) -> Res<Vec<i64>> {
        let offsets = s.numbers("offsets");
        for (p, &o) in offsets.iter().enumerate() {
            let part = self.partition(&s.topic(), p as i32)?;
            self.rt.block_on(part.delete_records(o, TIMEOUT_MS))?;
        }
        Ok(vec![-1; offsets.len()])
    }

    fn delete(&mut self, topic: &str) -> Res<()> {
        let controller = self.base.controller_client()?;
        Ok(self.rt.block_on(controller.delete_topic(topic, TIMEOUT_MS))?)
    }
}

/// Cuts a partition's records into batches of about BATCH_BYTES, in order.
fn pieces(queue: Vec<(usize, Record)>) -> Vec<Vec<(usize, Record)>> {
    let mut out: Vec<Vec<(usize, Record)>> = Vec::new();
    let mut room = 0;
    for (i, r) in queue {
        let size = r.value.as_ref().map_or(0, Vec::len) + r.key.as_ref().map_or(0, Vec::len) + 100;
        if size > room || out.is_empty() {
            out.push(Vec::new());
            room = BATCH_BYTES;
        }
        room = room.saturating_sub(size);
        out.last_mut().unwrap().push((i, r));
    }
    out
}
