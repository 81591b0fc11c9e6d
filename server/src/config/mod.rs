//! The settings of a node: each one once, with name, unit, default and meaning.
//! Owns their sources and precedence (flag, then `ALLUVIUM_*`, then TOML file, then default) and refuses what it does
//! not know. Settings of a session (`SET …`) are `session::variables`. Read once, before any thread starts.

mod settings;
mod unit;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use settings::{SETTINGS, Setting};

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: Vec<SocketAddr>,
    pub cores: u16,
    pub io: IoChoice,
    /// Of the role `postgres`. `None` = trust, and then only loopback is listened on.
    pub password: Option<Password>,
    pub tls: Option<TlsFiles>,
    pub log: LogConfig,
    pub memory_limit_bytes: u64,
    pub max_connections: usize,
    pub drain_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    Auto,
    Uring,
    Threads,
}

/// Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A level, or `target=level` directives.
    pub level: String,
}

/// Why a node does not start. One line for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

type Values = BTreeMap<&'static str, Vec<String>>;

impl Config {
    /// Merges the sources. `flags` are name and value as given on the command line, `environment` all of it.
    pub fn load(
        flags: Vec<(String, String)>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let flags = from_flags(flags)?;
        let environment = from_environment(environment)?;
        let file = flags.get("config").or_else(|| environment.get("config")).and_then(|v| v.last());
        let file = match file {
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|e| ConfigError(format!("cannot read {path}: {e}")))?;
                from_toml(path, &text)?
            }
            None => Values::new(),
        };
        let mut merged = Values::new();
        for setting in SETTINGS {
            let given = [&flags, &environment, &file].into_iter().find_map(|source| source.get(setting.name));
            if let Some(values) = given {
                merged.insert(setting.name, values.clone());
            } else if let Some(default) = setting.default {
                merged.insert(setting.name, vec![default.to_owned()]);
            }
        }
        Self::from_values(&merged)
    }

    fn from_values(values: &Values) -> Result<Config, ConfigError> {
        let one = |name: &str| values.get(name).and_then(|v| v.last()).map(String::as_str);
        let needed = |name: &'static str| one(name).ok_or_else(|| ConfigError(format!("{name} needs a value")));
        let invalid = |name: &str, value: &str, expected: &str| {
            ConfigError(format!("invalid value for \"{name}\": \"{value}\" (expected {expected})"))
        };
        let listen = values.get("listen").map_or(&[][..], Vec::as_slice);
        let listen: Vec<SocketAddr> = listen
            .iter()
            .flat_map(|v| v.split(','))
            .map(|v| resolve(v.trim()).ok_or_else(|| invalid("listen", v, "host:port")))
            .collect::<Result<Vec<_>, _>>()?;
        let cores = match one("cores") {
            None => std::thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX)),
            Some(v) => {
                v.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or_else(|| invalid("cores", v, "1 to 1024"))?
            }
        };
        let io = match needed("io")? {
            "auto" => IoChoice::Auto,
            "uring" => IoChoice::Uring,
            "threads" => IoChoice::Threads,
            other => return Err(invalid("io", other, "auto, uring or threads")),
        };
        let password = match (one("password"), one("password-file")) {
            (Some(_), Some(_)) => return Err(ConfigError("give either password or password-file".into())),
            (Some(password), None) => Some(password.to_owned()),
            (None, Some(path)) => {
                let text =
                    std::fs::read_to_string(path).map_err(|e| ConfigError(format!("cannot read {path}: {e}")))?;
                Some(text.trim_end_matches(['\r', '\n']).to_owned())
            }
            (None, None) => None,
        };
        if password.as_deref() == Some("") {
            return Err(ConfigError("the password is empty".into()));
        }
        let tls = match (one("tls-cert"), one("tls-key")) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate: certificate.into(), key: key.into() }),
            (None, None) => None,
            _ => return Err(ConfigError("tls-cert and tls-key belong together".into())),
        };
        let format = match needed("log-format")? {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => return Err(invalid("log-format", other, "text or json")),
        };
        let memory = needed("memory-limit")?;
        let memory_limit_bytes =
            unit::bytes(memory).ok_or_else(|| invalid("memory-limit", memory, "bytes, or 512MB"))?;
        let connections = needed("max-connections")?;
        let drain = needed("drain-timeout")?;
        let config = Config {
            data_dir: needed("data-dir")?.into(),
            listen,
            cores,
            io,
            password: password.map(Password),
            tls,
            log: LogConfig { format, level: needed("log-level")?.to_owned() },
            memory_limit_bytes,
            max_connections: connections
                .parse()
                .ok()
                .filter(|n| (1..=100_000).contains(n))
                .ok_or_else(|| invalid("max-connections", connections, "1 to 100000"))?,
            drain_timeout: unit::duration(drain).ok_or_else(|| invalid("drain-timeout", drain, "a time like 10s"))?,
        };
        config.check()
    }

    /// Trust is for the own machine only.
    fn check(self) -> Result<Config, ConfigError> {
        if self.listen.is_empty() {
            return Err(ConfigError("listen needs at least one address".into()));
        }
        if self.password.is_none()
            && let Some(open) = self.listen.iter().find(|a| !a.ip().is_loopback())
        {
            return Err(ConfigError(format!(
                "refusing to listen on {open} without a password: set password or password-file, or listen on 127.0.0.1"
            )));
        }
        Ok(self)
    }

    /// A node for tests: loopback, a port of the system's choice.
    pub fn for_test(data_dir: PathBuf, cores: u16) -> Config {
        Config {
            data_dir,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            cores,
            io: IoChoice::Auto,
            password: None,
            tls: None,
            log: LogConfig { format: LogFormat::Text, level: "warn".into() },
            memory_limit_bytes: 256 << 20,
            max_connections: 200,
            drain_timeout: Duration::from_secs(2),
        }
    }
}

fn resolve(text: &str) -> Option<SocketAddr> {
    use std::net::ToSocketAddrs;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    text.to_socket_addrs().ok()?.next()
}

fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.name == name)
}

fn from_flags(flags: Vec<(String, String)>) -> Result<Values, ConfigError> {
    let mut values = Values::new();
    for (name, value) in flags {
        let setting = setting(&name).ok_or_else(|| ConfigError(format!("unknown setting --{name}")))?;
        values.entry(setting.name).or_default().push(value);
    }
    Ok(values)
}

fn from_environment(environment: impl IntoIterator<Item = (String, String)>) -> Result<Values, ConfigError> {
    let mut values = Values::new();
    for (key, value) in environment {
        let Some(name) = key.strip_prefix("ALLUVIUM_") else { continue };
        let name = name.to_ascii_lowercase().replace('_', "-");
        let setting = setting(&name).ok_or_else(|| ConfigError(format!("unknown setting {key} in the environment")))?;
        values.entry(setting.name).or_default().push(value);
    }
    Ok(values)
}

fn from_toml(path: &str, text: &str) -> Result<Values, ConfigError> {
    let table: toml::Table =
        text.parse().map_err(|e: toml::de::Error| ConfigError(format!("{path}: {}", e.to_string().trim_end())))?;
    let mut values = Values::new();
    for (key, value) in table {
        let setting = setting(&key.replace('_', "-"))
            .filter(|s| s.name != "config")
            .ok_or_else(|| ConfigError(format!("{path}: unknown setting {key}")))?;
        let items = match value {
            toml::Value::Array(items) if setting.repeatable => items,
            other => vec![other],
        };
        for item in items {
            let text = match item {
                toml::Value::String(s) => s,
                toml::Value::Integer(i) => i.to_string(),
                other => {
                    return Err(ConfigError(format!("{path}: {key} cannot be {}", other.type_str())));
                }
            };
            values.entry(setting.name).or_default().push(text);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
