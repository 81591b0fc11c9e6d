//! The table of settings. Flags, environment, TOML keys and `--help` are all made from it.

/// One setting of a node.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// `--name`, `ALLUVIUM_NAME` and the TOML key, with `-` or `_`.
    pub name: &'static str,
    /// What the value is, for `--help`.
    pub value: &'static str,
    /// `None`: see `doc`.
    pub default: Option<&'static str>,
    /// May be given more than once.
    pub repeatable: bool,
    pub doc: &'static str,
}

const fn one(name: &'static str, value: &'static str, default: Option<&'static str>, doc: &'static str) -> Setting {
    Setting { name, value, default, repeatable: false, doc }
}

pub const SETTINGS: &[Setting] = &[
    one("config", "FILE", None, "TOML file with any of these settings"),
    one("data-dir", "DIR", Some("alluvium-data"), "where everything is kept; made if it does not exist"),
    Setting {
        name: "listen",
        value: "HOST:PORT",
        default: Some("127.0.0.1:5432"),
        repeatable: true,
        doc: "address for PostgreSQL clients; anything but loopback needs a password",
    },
    one("cores", "N", None, "cores to use, each with a shard and a compute thread (default: all of the machine)"),
    one("io", "auto|uring|threads", Some("auto"), "disk access; uring refuses to start where io_uring is forbidden"),
    one("password", "TEXT", None, "password of the role postgres (default: none, loopback is trusted)"),
    one("password-file", "FILE", None, "file whose only line is that password"),
    one("tls-cert", "FILE", None, "PEM certificate chain; with tls-key switches TLS on"),
    one("tls-key", "FILE", None, "PEM private key"),
    one("log-format", "text|json", Some("text"), "form of log lines"),
    one("log-level", "LEVEL", Some("info"), "error, warn, info, debug, trace, or target=level,…"),
    one("memory-limit", "BYTES", Some("1GB"), "what queries may hold together; 512MB, 4GB"),
    one("max-connections", "N", Some("1000"), "client connections at once"),
    one("drain-timeout", "TIME", Some("10s"), "how long running statements may take to end when the server stops"),
];
