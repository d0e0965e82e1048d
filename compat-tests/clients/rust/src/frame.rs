//! Plan in, lines out. Each step runs on a thread of its own, so that the limit holds whatever a library does.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Map, Value};

pub const LATEST: i64 = -1;
pub const EARLIEST: i64 = -2;

/// Why a step was not done.
pub enum No {
    Cannot(&'static str),
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for No {
    fn from(e: E) -> No {
        No::Failed(e.to_string())
    }
}

pub type Res<T> = Result<T, No>;

pub fn failed<T>(why: impl Into<String>) -> Res<T> {
    Err(No::Failed(why.into()))
}

/// One record; None is null. The offset counts only where it came from a broker.
#[derive(Clone, Default)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    pub time: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A step of the plan; its fields as the contract names them.
#[derive(Clone)]
pub struct Step(Map<String, Value>);

impl Step {
    pub fn text(&self, name: &str) -> String {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
    }

    pub fn number(&self, name: &str) -> i64 {
        self.0.get(name).and_then(Value::as_i64).unwrap_or_default()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn numbers(&self, name: &str) -> Vec<i64> {
        let items = self.0.get(name).and_then(Value::as_array);
        items.map(|a| a.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
    }

    pub fn configs(&self) -> BTreeMap<String, String> {
        let items = self.0.get("configs").and_then(Value::as_object);
        let pairs = items.into_iter().flatten();
        pairs.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_string())).collect()
    }

    pub fn topic(&self) -> String {
        self.text("topic")
    }

    pub fn partitions(&self) -> i32 {
        self.number("partitions") as i32
    }
}

pub type Emit<'a> = &'a mut dyn FnMut(Record);

/// One library.
pub trait Client: Send + 'static {
    fn create(&mut self, s: &Step) -> Res<()>;
    fn list(&mut self) -> Res<Vec<String>>;
    fn describe(&mut self, topic: &str) -> Res<usize>;
    fn produce(&mut self, s: &Step, records: Vec<Record>) -> Res<Vec<i64>>;
    /// The offset of each partition at a time; EARLIEST and LATEST as in the protocol; -1 where there is none.
    fn offsets_at(&mut self, topic: &str, partitions: i32, at: i64) -> Res<Vec<i64>>;
    /// Reads the partitions named in from, each until the next offset is until[partition] or more.
    fn consume(&mut self, topic: &str, from: &BTreeMap<i32, i64>, until: &[i64], emit: Emit) -> Res<()>;
    fn configs(&mut self, topic: &str) -> Res<BTreeMap<String, String>>;
    fn alter(&mut self, s: &Step) -> Res<()>;
    fn grow(&mut self, s: &Step) -> Res<()>;
    fn trim(&mut self, s: &Step) -> Res<Vec<i64>>;
    fn delete(&mut self, topic: &str) -> Res<()>;
}

fn bytes(v: &Value) -> Option<Vec<u8>> {
    v.as_str().and_then(|s| STANDARD.decode(s).ok())
}

fn encoded(v: &Option<Vec<u8>>) -> Value {
    v.as_ref().map_or(Value::Null, |b| Value::String(STANDARD.encode(b)))
}

fn records(path: &str) -> Res<Vec<Record>> {
    let mut out = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let v: Value = serde_json::from_str(&line?)?;
        let pairs = v["h"].as_array().cloned().unwrap_or_default();
        out.push(Record {
            partition: v["p"].as_i64().unwrap_or_default() as i32,
            offset: -1,
            time: v["t"].as_i64().unwrap_or_default(),
            key: bytes(&v["k"]),
            value: bytes(&v["v"]),
            headers: pairs.iter().map(|h| (h[0].as_str().unwrap_or_default().to_string(), bytes(&h[1]))).collect(),
        });
    }
    Ok(out)
}

fn line_of(number: usize, r: &Record) -> Value {
    let headers: Vec<Value> = r.headers.iter().map(|(name, value)| json!([name, encoded(value)])).collect();
    json!({"step": number, "p": r.partition, "o": r.offset, "t": r.time, "k": encoded(&r.key), "v": encoded(&r.value), "h": headers})
}

fn consume(c: &mut dyn Client, s: &Step, emit: Emit) -> Res<Value> {
    let (topic, until) = (s.topic(), s.numbers("until"));
    let from = s.text("from");
    let start = match from.as_str() {
        "earliest" => c.offsets_at(&topic, until.len() as i32, EARLIEST)?,
        "time" => c.offsets_at(&topic, until.len() as i32, s.number("time"))?,
        _ => s.numbers("offsets"),
    };
    let mut wanted = BTreeMap::new();
    for (p, &o) in start.iter().enumerate() {
        if o >= 0 && o < until[p] {
            wanted.insert(p as i32, if from == "earliest" { EARLIEST } else { o });
        }
    }
    if !wanted.is_empty() {
        c.consume(&topic, &wanted, &until, emit)?;
    }
    Ok(json!({"start": start}))
}

fn done(r: Res<()>) -> Res<Value> {
    r.map(|()| json!({}))
}

fn one(c: &mut dyn Client, s: &Step, emit: Emit) -> Res<Value> {
    let topic = s.topic();
    match s.text("do").as_str() {
        "create" => done(c.create(s)),
        "list" => Ok(json!({"topics": c.list()?})),
        "describe" => Ok(json!({"partitions": c.describe(&topic)?})),
        "produce" => Ok(json!({"offsets": c.produce(s, records(&s.text("records"))?)?})),
        "consume" => consume(c, s, emit),
        "offsets" => Ok(json!({"earliest": c.offsets_at(&topic, s.partitions(), EARLIEST)?,
                               "latest": c.offsets_at(&topic, s.partitions(), LATEST)?})),
        "configs" => Ok(json!({"configs": c.configs(&topic)?})),
        "alter" => done(c.alter(s)),
        "grow" => done(c.grow(s)),
        "trim" => Ok(json!({"low": c.trim(s)?})),
        "delete" => done(c.delete(&topic)),
        other => failed(format!("no such step: {other}")),
    }
}

fn closing(number: usize, answer: Res<Value>) -> Value {
    match answer {
        Ok(mut v) => {
            v["step"] = json!(number);
            v["ok"] = json!(true);
            v
        }
        Err(No::Cannot(why)) => json!({"step": number, "skip": why}),
        Err(No::Failed(why)) => json!({"step": number, "ok": false, "error": why}),
    }
}

/// Runs one step on a thread; lines of a step that is over are not written any more.
fn limited(client: Arc<Mutex<dyn Client>>, s: Step, number: usize, limit: Duration, out: &mut impl Write) -> Res<Value> {
    enum Word {
        Line(Value),
        End(Res<Value>),
    }
    let (say, hear) = mpsc::channel();
    thread::spawn(move || {
        let talk = say.clone();
        let mut emit = move |r: Record| drop(talk.send(Word::Line(line_of(number, &r))));
        let answer = one(&mut *client.lock().unwrap(), &s, &mut emit);
        drop(say.send(Word::End(answer)));
    });
    let end = std::time::Instant::now() + limit;
    loop {
        match hear.recv_timeout(end.saturating_duration_since(std::time::Instant::now())) {
            Ok(Word::Line(v)) => writeln!(out, "{v}")?,
            Ok(Word::End(answer)) => return answer,
            Err(mpsc::RecvTimeoutError::Timeout) => return failed("the step's time is over"),
            Err(e) => return failed(e.to_string()),
        }
    }
}

pub fn run<C: Client>(path: &str, name: &str, version: String, open: fn(&str) -> Res<C>) -> Result<(), String> {
    let text = |e: No| match e {
        No::Cannot(why) => why.to_string(),
        No::Failed(why) => why,
    };
    steps(path, name, version, open).map_err(text)
}

fn steps<C: Client>(path: &str, name: &str, version: String, open: fn(&str) -> Res<C>) -> Res<()> {
    let plan: Value = serde_json::from_reader(File::open(path)?)?;
    let mut out = BufWriter::new(File::create(plan["out"].as_str().unwrap_or_default())?);
    writeln!(out, "{}", json!({"client": name, "version": version}))?;
    let limit = Duration::from_secs_f64(plan["limit_s"].as_f64().unwrap_or(30.0));
    let broker = plan["broker"].as_str().unwrap_or_default();
    let client: Arc<Mutex<dyn Client>> = Arc::new(Mutex::new(open(broker)?));
    for (number, s) in plan["steps"].as_array().cloned().unwrap_or_default().into_iter().enumerate() {
        let s = Step(s.as_object().cloned().unwrap_or_default());
        let answer = limited(client.clone(), s, number, limit, &mut out);
        writeln!(out, "{}", closing(number, answer))?;
        out.flush()?;
    }
    Ok(())
}
