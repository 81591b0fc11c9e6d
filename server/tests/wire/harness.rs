//! Scripts of messages: lines that send, lines that say what must come back.
//!
//! | line | sends |
//! |---|---|
//! | `Q text` | Query |
//! | `P name \| text [\| oid,…]` | Parse |
//! | `B portal \| statement [\| value,…]` | Bind in text; `null` = NULL |
//! | `D S name`, `D P name`, `C S name`, `C P name` | Describe, Close |
//! | `E portal max` | Execute (`-` = unnamed) |
//! | `H` `S` `X` `c` `d data` `f why` `F` | Flush, Sync, Terminate, CopyDone, CopyData, CopyFail, FunctionCall |
//!
//! `= …` reads exactly these messages: `1 2 3 n s I`, `Z:I`, `C:tag`, `E:state`, `N:state`, `D(value,…)`,
//! `T(name:oid,…)`, `t(oid,…)`, `S:name=value`, `A:channel=payload`. `c2 …` as a prefix speaks on a second connection.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use alluvium::config::Config;
use alluvium::node::{self, NodeHandle};

/// A node of its own for one test, stopped at the end.
pub struct Node {
    handle: Option<NodeHandle>,
    directory: std::path::PathBuf,
}

impl Node {
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("alluvium-wire-{}-{unique}", std::process::id()));
        let mut config = Config::for_test(directory.clone(), 2);
        change(&mut config);
        let handle = node::start(config).expect("the node starts");
        Self { handle: Some(handle), directory }
    }

    pub fn address(&self) -> SocketAddr {
        self.handle.as_ref().expect("running").addresses()[0]
    }

    pub fn handle(&self) -> &NodeHandle {
        self.handle.as_ref().expect("running")
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address(), &[("user", "postgres"), ("database", "postgres")])
    }

    /// Runs a script on fresh connections.
    pub fn run(&self, script: &str) {
        let mut connections = BTreeMap::new();
        for (number, line) in script.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (who, rest) = match line.split_once(' ') {
                Some((who, rest)) if who.len() == 2 && who.starts_with('c') && who.as_bytes()[1].is_ascii_digit() => {
                    (who.to_owned(), rest.trim())
                }
                _ => ("c1".to_owned(), line),
            };
            let connection = connections.entry(who).or_insert_with(|| self.connect());
            if let Some(expected) = rest.strip_prefix('=') {
                connection.expect(expected.trim(), &format!("line {}: {line}", number + 1));
            } else {
                connection.say(rest);
            }
        }
    }

    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(handle) = self.handle.take() {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the stop");
            runtime.block_on(handle.stop(std::future::pending()));
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

pub struct Connection {
    stream: TcpStream,
    pub pid: i32,
    pub key: Vec<u8>,
    pub parameters: BTreeMap<String, String>,
}

impl Connection {
    /// Connects and reads up to the first ReadyForQuery.
    pub fn open(address: SocketAddr, settings: &[(&str, &str)]) -> Self {
        let mut connection = Self::raw(address);
        connection.startup(3 << 16, settings);
        loop {
            let (kind, body) = connection.read().expect("startup goes on");
            match kind {
                b'Z' => return connection,
                b'E' => panic!("refused: {}", show(kind, &body)),
                _ => connection.note(kind, &body),
            }
        }
    }

    pub fn raw(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the node listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        Self { stream, pid: 0, key: Vec::new(), parameters: BTreeMap::new() }
    }

    pub fn startup(&mut self, version: u32, settings: &[(&str, &str)]) {
        let mut body = version.to_be_bytes().to_vec();
        for (name, value) in settings {
            body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        body.push(0);
        self.write(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat());
    }

    fn note(&mut self, kind: u8, body: &[u8]) {
        match kind {
            b'S' => {
                let texts: Vec<_> = body.split(|b| *b == 0).map(|t| String::from_utf8_lossy(t).into_owned()).collect();
                self.parameters.insert(texts[0].clone(), texts[1].clone());
            }
            b'K' => {
                self.pid = i32::from_be_bytes(body[..4].try_into().expect("four bytes"));
                self.key = body[4..].to_vec();
            }
            _ => {}
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// `None`: closed.
    pub fn read_byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).ok().map(|()| byte[0])
    }

    pub fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes")) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// The next message as scripts write it; `closed` at the end.
    pub fn next(&mut self) -> String {
        match self.read() {
            Some((kind, body)) => show(kind, &body),
            None => "closed".into(),
        }
    }

    pub fn expect(&mut self, expected: &str, at: &str) {
        let expected = split_expected(expected);
        let mut got = Vec::new();
        for wanted in &expected {
            let message = self.next();
            // A message may be named by its letter alone.
            let fits = message == *wanted || (wanted.len() == 1 && message.starts_with(wanted.as_str()));
            got.push(message);
            assert!(fits, "{at}\n  expected {expected:?}\n  got      {got:?}");
        }
    }

    /// Sends one line of a script.
    pub fn say(&mut self, line: &str) {
        let (kind, rest) = line.split_at(1);
        let rest = rest.trim();
        let name = |text: &str| if text == "-" { String::new() } else { text.trim().to_owned() };
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        let fields: Vec<&str> = rest.split('|').map(str::trim).collect();
        let body = match kind {
            "Q" => text(rest),
            "P" => {
                let oids: Vec<u32> = fields
                    .get(2)
                    .map(|o| o.split(',').map(|o| o.trim().parse().expect("an OID")).collect())
                    .unwrap_or_default();
                let mut body = [text(&name(fields[0])), text(fields[1])].concat();
                body.extend((oids.len() as u16).to_be_bytes());
                oids.iter().for_each(|o| body.extend(o.to_be_bytes()));
                body
            }
            "B" => {
                let values: Vec<&str> = fields.get(2).map(|v| v.split(',').collect()).unwrap_or_default();
                let mut body = [text(&name(fields[0])), text(&name(fields[1]))].concat();
                body.extend(0u16.to_be_bytes());
                body.extend((values.len() as u16).to_be_bytes());
                for value in values {
                    if value == "null" {
                        body.extend((-1i32).to_be_bytes());
                    } else {
                        body.extend((value.len() as u32).to_be_bytes());
                        body.extend(value.as_bytes());
                    }
                }
                body.extend(0u16.to_be_bytes());
                body
            }
            "D" | "C" => {
                let (target, of) = rest.split_at(1);
                [target.as_bytes(), &text(&name(of.trim()))].concat()
            }
            "E" => {
                let (portal, max) = rest.split_once(' ').expect("portal and limit");
                [text(&name(portal)), max.trim().parse::<i32>().expect("a limit").to_be_bytes().to_vec()].concat()
            }
            "d" => format!("{rest}\n").into_bytes(),
            "f" => text(rest),
            _ => Vec::new(),
        };
        self.write(&[kind.as_bytes(), &(body.len() as u32 + 4).to_be_bytes(), &body].concat());
    }
}

/// `D(a b,c) C:SELECT 1 Z:I` → its messages: a new one begins at a blank followed by a message's form.
fn split_expected(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let open = parts.last().is_some_and(|p| p.matches('(').count() > p.matches(')').count());
        let begins = word == "closed"
            || word.len() == 1 && "123nsITDGHcdtGSZ".contains(word)
            || word.len() > 1 && matches!(word.as_bytes()[1], b':' | b'(') && "ZCENDTtSAd".contains(&word[..1]);
        match parts.last_mut() {
            Some(last) if open || !begins => {
                last.push(' ');
                last.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
    }
    parts
}

fn show(kind: u8, body: &[u8]) -> String {
    let texts = |body: &[u8]| -> Vec<String> {
        body.split(|b| *b == 0).map(|t| String::from_utf8_lossy(t).into_owned()).collect()
    };
    let u16_at = |at: usize| usize::from(u16::from_be_bytes(body[at..at + 2].try_into().expect("two bytes")));
    let i32_at = |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().expect("four bytes"));
    match kind {
        b'Z' => format!("Z:{}", body[0] as char),
        b'C' => format!("C:{}", texts(body)[0]),
        b'E' | b'N' => {
            let fields = texts(body);
            let state = fields.iter().find_map(|f| f.strip_prefix('C')).unwrap_or("?");
            format!("{}:{state}", kind as char)
        }
        b'S' => format!("S:{}={}", texts(body)[0], texts(body)[1]),
        b'A' => format!("A:{}={}", texts(&body[4..])[0], texts(&body[4..])[1]),
        b'd' => format!("d:{}", String::from_utf8_lossy(body).trim_end()),
        b't' => {
            let oids: Vec<String> = (0..u16_at(0)).map(|i| i32_at(2 + 4 * i).to_string()).collect();
            format!("t({})", oids.join(","))
        }
        b'T' => {
            let (mut at, mut columns) = (2, Vec::new());
            for _ in 0..u16_at(0) {
                let end = at + body[at..].iter().position(|b| *b == 0).expect("a name's end");
                let name = String::from_utf8_lossy(&body[at..end]).into_owned();
                columns.push(format!("{name}:{}", i32_at(end + 7)));
                at = end + 19;
            }
            format!("T({})", columns.join(","))
        }
        b'D' => {
            let (mut at, mut values) = (2, Vec::new());
            for _ in 0..u16_at(0) {
                let length = i32_at(at);
                at += 4;
                if length < 0 {
                    values.push("null".to_owned());
                } else {
                    let end = at + length as usize;
                    values.push(String::from_utf8_lossy(&body[at..end]).into_owned());
                    at = end;
                }
            }
            format!("D({})", values.join(","))
        }
        other => (other as char).to_string(),
    }
}
