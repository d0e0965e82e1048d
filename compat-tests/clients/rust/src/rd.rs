//! rdkafka: the Rust face of librdkafka, here with the librdkafka that the crate brings along.
use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::runtime::Runtime;

use crate::frame::{failed, Client, Emit, Record, Res, Step, EARLIEST, LATEST};

const WAIT: Duration = Duration::from_secs(20);

pub fn version() -> String {
    format!("{} (librdkafka {})", env!("RDKAFKA_VERSION"), rdkafka::util::get_rdkafka_version().1)
}

pub struct Rd {
    broker: String,
    rt: Runtime,
    admin: AdminClient<DefaultClientContext>,
    reader: BaseConsumer,
}

impl Rd {
    pub fn open(broker: &str) -> Res<Rd> {
        let rt = Runtime::new()?;
        let entered = rt.enter();
        let (admin, reader) = (config(broker).create()?, consumer(broker)?);
        drop(entered);
        Ok(Rd { broker: broker.to_string(), rt, admin, reader })
    }
}

fn config(broker: &str) -> ClientConfig {
    let mut c = ClientConfig::new();
    c.set("bootstrap.servers", broker).set("broker.address.family", "v4");
    c
}

/// A group id must be there to assign; with offsets given no group is ever asked.
fn consumer(broker: &str) -> Res<BaseConsumer> {
    let mut c = config(broker);
    c.set("group.id", "compat-unused").set("enable.auto.commit", "false").set("auto.offset.reset", "error");
    c.set("check.crcs", "true").set("fetch.wait.max.ms", "200");
    Ok(c.create()?)
}

fn received(m: &BorrowedMessage) -> Record {
    let headers = m.headers().map(|h| h.iter().map(|x| (x.key.to_string(), x.value.map(<[u8]>::to_vec))).collect());
    Record {
        partition: m.partition(),
        offset: m.offset(),
        time: m.timestamp().to_millis().unwrap_or(-1),
        key: m.key().map(<[u8]>::to_vec),
        value: m.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_default(),
    }
}

fn topics_ok<T, E: std::fmt::Debug>(results: Vec<Result<T, E>>) -> Res<()> {
    match results.into_iter().find_map(Result::err) {
        Some(e) => failed(format!("{e:?}")),
        None => Ok(()),
    }
}

fn listed(topic: &str, at: impl IntoIterator<Item = (i32, Offset)>) -> Res<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (p, o) in at {
        list.add_partition_offset(topic, p, o)?;
    }
    Ok(list)
}

impl Client for Rd {
    fn create(&mut self, s: &Step) -> Res<()> {
        let (topic, configs) = (s.topic(), s.configs());
        let mut new = NewTopic::new(&topic, s.partitions(), TopicReplication::Fixed(1));
        for (k, v) in &configs {
            new = new.set(k, v);
        }
        topics_ok(self.rt.block_on(self.admin.create_topics(&[new], &AdminOptions::new()))?)
    }

    fn list(&mut self) -> Res<Vec<String>> {
        let m = self.reader.fetch_metadata(None, WAIT)?;
        Ok(m.topics().iter().map(|t| t.name().to_string()).collect())
    }

    fn describe(&mut self, topic: &str) -> Res<usize> {
        let m = self.reader.fetch_metadata(Some(topic), WAIT)?;
        match m.topics().first() {
            Some(t) if t.error().is_none() => Ok(t.partitions().len()),
            Some(t) => failed(format!("{:?}", t.error())),
            None => failed("no topic in the answer"),
        }
    }

    fn produce(&mut self, s: &Step, records: Vec<Record>) -> Res<Vec<i64>> {
        let mut c = config(&self.broker);
        c.set("compression.codec", s.text("codec")).set("acks", s.number("acks").to_string());
        c.set("enable.idempotence", s.flag("idempotent").to_string()).set("linger.ms", s.number("linger_ms").to_string());
        let entered = self.rt.enter();
        let producer: FutureProducer = c.create()?;
        drop(entered);
        let topic = s.topic();
        let mut waiting = Vec::new();
        for r in &records {
            let mut out: FutureRecord<[u8], [u8]> = FutureRecord::to(&topic).partition(r.partition).timestamp(r.time);
            out.key = r.key.as_deref();
            out.payload = r.value.as_deref();
            let add = |h: OwnedHeaders, (key, value): &(String, Option<Vec<u8>>)| h.insert(Header { key, value: value.as_deref() });
            out.headers = (!r.headers.is_empty()).then(|| r.headers.iter().fold(OwnedHeaders::new(), add));
            waiting.push(producer.send_result(out).map_err(|(e, _)| e)?);
        }
        producer.flush(WAIT)?;
        let mut offsets = Vec::new();
        for w in waiting {
            let sent = self.rt.block_on(w)?.map_err(|(e, _)| e)?;
            offsets.push(if s.number("acks") == 0 { -1 } else { sent.offset });
        }
        Ok(offsets)
    }

    fn offsets_at(&mut self, topic: &str, partitions: i32, at: i64) -> Res<Vec<i64>> {
        if at == EARLIEST || at == LATEST {
            let pick = |(low, high)| if at == EARLIEST { low } else { high };
            return (0..partitions).map(|p| Ok(pick(self.reader.fetch_watermarks(topic, p, WAIT)?))).collect();
        }
        let ask = listed(topic, (0..partitions).map(|p| (p, Offset::Offset(at))))?;
        let answer = self.reader.offsets_for_times(ask, WAIT)?;
        let offset = |p| match answer.find_partition(topic, p).map(|e| e.offset()) {
            Some(Offset::Offset(o)) => o,
            _ => -1,                                 // Offset::End: nothing is that young
        };
        Ok((0..partitions).map(offset).collect())
    }

    fn consume(&mut self, topic: &str, from: &BTreeMap<i32, i64>, until: &[i64], emit: Emit) -> Res<()> {
        let reader = consumer(&self.broker)?;
        let begin = |&o: &i64| if o == EARLIEST { Offset::Beginning } else { Offset::Offset(o) };
        reader.assign(&listed(topic, from.iter().map(|(p, o)| (*p, begin(o))))?)?;
        let mut open: Vec<i32> = from.keys().copied().collect();
        while !open.is_empty() {
            let Some(m) = reader.poll(WAIT) else {
                return failed(format!("nothing came for {WAIT:?}; still open: {open:?}"));
            };
            let m = m?;
            let end = until[m.partition() as usize];
            if m.offset() < end && open.contains(&m.partition()) {
                emit(received(&m));
            }
            if m.offset() + 1 >= end {
                open.retain(|p| *p != m.partition());
            }
        }
        Ok(())
    }

    fn configs(&mut self, topic: &str) -> Res<BTreeMap<String, String>> {
        let what = [ResourceSpecifier::Topic(topic)];
        let mut out = BTreeMap::new();
        for r in self.rt.block_on(self.admin.describe_configs(&what, &AdminOptions::new()))? {
            for e in r?.entries {
                out.insert(e.name, e.value.unwrap_or_default());
            }
        }
        Ok(out)
    }

    fn alter(&mut self, s: &Step) -> Res<()> {
        let (topic, configs) = (s.topic(), s.configs());
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(&topic));
        for (k, v) in &configs {
            change = change.set(k, v);
        }
        topics_ok(self.rt.block_on(self.admin.alter_configs(&[change], &AdminOptions::new()))?)
    }

    fn grow(&mut self, s: &Step) -> Res<()> {
        let topic = s.topic();
        let more = NewPartitions::new(&topic, s.partitions() as usize);
        topics_ok(self.rt.block_on(self.admin.create_partitions(&[more], &AdminOptions::new()))?)
    }

    fn trim(&mut self, s: &Step) -> Res<Vec<i64>> {
        let (topic, offsets) = (s.topic(), s.numbers("offsets"));
        let ask = listed(&topic, offsets.iter().enumerate().map(|(p, o)| (p as i32, Offset::Offset(*o))))?;
        let answer = self.rt.block_on(self.admin.delete_records(&ask, &AdminOptions::new()))?;
        let low = |p| match answer.find_partition(&topic, p).map(|e| e.offset()) {
            Some(Offset::Offset(o)) => o,
            _ => -1,
        };
        Ok((0..offsets.len() as i32).map(low).collect())
    }

    fn delete(&mut self, topic: &str) -> Res<()> {
        topics_ok(self.rt.block_on(self.admin.delete_topics(&[topic], &AdminOptions::new()))?)
    }
}
