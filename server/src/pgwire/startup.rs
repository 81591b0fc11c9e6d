//! The first messages of a connection: encryption, cancel requests, the startup packet, authentication.
//! Ends with a client that is known, or with the connection closed. Bounded by [`AUTHENTICATION_TIMEOUT`].

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

use alluvium_exec::{SqlError, SqlState};

use crate::access::{Login, Roles};
use crate::pgwire::codec::{self, Body, UNAUTHENTICATED_BYTES_MAX, violation};
use crate::pgwire::error_response::{Severity, error_response};
use crate::pgwire::output::Output;
use crate::pgwire::tls::Tls;
use crate::pgwire::{ReadHalf, WriteHalf};

/// `authentication_timeout` of PostgreSQL.
pub const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(60);

const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;
const PROTOCOL_3_0: i32 = 3 << 16;
const TLS_CLIENT_HELLO: u8 = 0x16;

/// A client that has said who it is, and was believed.
pub struct Client {
    pub reader: ReadHalf,
    pub output: Output,
    /// Read already, not yet used.
    pub buffer: BytesMut,
    pub user: String,
    pub database: String,
    /// Settings in the order they came: those of `options` first.
    pub settings: Vec<(String, String)>,
}

/// What became of a connection.
pub enum Opening {
    Client(Box<Client>),
    /// A cancel request; nothing is answered.
    Cancel {
        pid: i32,
        key: Bytes,
    },
    /// Closed, or refused with an error already sent.
    Closed,
}

/// A connection whose encryption is settled.
struct Channel {
    reader: ReadHalf,
    output: Output,
    buffer: BytesMut,
    secure: bool,
}

/// Runs the opening of a connection.
pub async fn open(stream: TcpStream, tls: Option<&Tls>, roles: &Roles) -> Opening {
    match tokio::time::timeout(AUTHENTICATION_TIMEOUT, negotiate(stream, tls, roles)).await {
        Ok(Some(opening)) => opening,
        Ok(None) | Err(_) => Opening::Closed,
    }
}

async fn negotiate(stream: TcpStream, tls: Option<&Tls>, roles: &Roles) -> Option<Opening> {
    let mut first = [0u8; 1];
    if stream.peek(&mut first).await.ok()? == 0 {
        return None;
    }
    let mut channel = match tls {
        Some(tls) if first[0] == TLS_CLIENT_HELLO => direct_tls(stream, tls).await?,
        _ => settle_encryption(stream, tls).await?,
    };
    let packet = read_packet(&mut channel.reader, &mut channel.buffer).await?;
    match parse_packet(packet) {
        Ok(Packet::Cancel { pid, key }) => Some(Opening::Cancel { pid, key }),
        Ok(Packet::Startup(startup)) => admit(channel, startup, roles).await,
        Err(error) => refuse(channel, error).await,
    }
}

/// TLS from the first byte on (PostgreSQL 17 and later clients).
async fn direct_tls(stream: TcpStream, tls: &Tls) -> Option<Channel> {
    let stream = tls.acceptor.accept(stream).await.ok()?;
    if stream.get_ref().1.alpn_protocol() != Some(b"postgresql") {
        return None;
    }
    Some(split(stream, BytesMut::new(), true))
}

/// Answers SSLRequest and GSSENCRequest until something else comes.
async fn settle_encryption(mut stream: TcpStream, tls: Option<&Tls>) -> Option<Channel> {
    let mut buffer = BytesMut::with_capacity(1 << 10);
    loop {
        while buffer.len() < 8 {
            if stream.read_buf(&mut buffer).await.ok()? == 0 {
                return None;
            }
        }
        let code = (&buffer[4..8]).get_u32();
        if (&buffer[..4]).get_u32() != 8 || !matches!(code, SSL_REQUEST | GSSENC_REQUEST) {
            let (reader, writer) = stream.into_split();
            return Some(Channel {
                reader: Box::new(reader),
                output: Output::new(Box::new(writer)),
                buffer,
                secure: false,
            });
        }
        buffer.advance(8);
        match tls {
            Some(tls) if code == SSL_REQUEST => {
                write_all(&mut stream, b"S").await?;
                if !buffer.is_empty() {
                    // Bytes sent before the handshake could have been put there by a man in the middle.
                    tracing::warn!("received unencrypted data after SSL request");
                    return None;
                }
                let stream = tls.acceptor.accept(stream).await.ok()?;
                return Some(split(stream, buffer, true));
            }
            _ => write_all(&mut stream, b"N").await?,
        }
    }
}

async fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    tokio::io::AsyncWriteExt::write_all(stream, bytes).await.ok()
}

fn split<S: AsyncRead + AsyncWrite + Unpin + 'static>(stream: S, buffer: BytesMut, secure: bool) -> Channel {
    let (reader, writer) = tokio::io::split(stream);
    let writer: WriteHalf = Box::new(writer);
    Channel { reader: Box::new(reader), output: Output::new(writer), buffer, secure }
}

/// A message without type byte: length, then that much.
async fn read_packet(reader: &mut ReadHalf, buffer: &mut BytesMut) -> Option<Bytes> {
    loop {
        if buffer.len() >= 4 {
            let length = (&buffer[..4]).get_u32() as usize;
            if !(8..=UNAUTHENTICATED_BYTES_MAX).contains(&length) {
                return None;
            }
            if buffer.len() >= length {
                buffer.advance(4);
                return Some(buffer.split_to(length - 4).freeze());
            }
        }
        if reader.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

enum Packet {
    Startup(Startup),
    Cancel { pid: i32, key: Bytes },
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Startup {
    user: String,
    database: Option<String>,
    settings: Vec<(String, String)>,
    minor_version: u32,
    /// `_pq_.…`: protocol options, none of which we know.
    protocol_options: Vec<String>,
}

fn parse_packet(packet: Bytes) -> Result<Packet, SqlError> {
    let mut body = Body(packet);
    let code = body.u32()?;
    if code == CANCEL_REQUEST {
        let pid = body.u32()? as i32;
        return Ok(Packet::Cancel { pid, key: body.0 });
    }
    let (major, minor) = (code >> 16, code & 0xffff);
    if major != 3 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"),
        ));
    }
    let mut startup = Startup { minor_version: minor, ..Startup::default() };
    let mut given = Vec::new();
    let mut options = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            break;
        }
        let value = body.text()?;
        match name.as_str() {
            "user" => startup.user = value,
            "database" => startup.database = Some(value),
            "options" => options = parse_options(&value)?,
            "replication" if matches!(value.as_str(), "0" | "false" | "off" | "no") => {}
            "replication" => {
                return Err(SqlError::unsupported("a replication connection")
                    .hint("Read changes with SELECT … EMIT CHANGES instead."));
            }
            name if name.starts_with("_pq_.") => startup.protocol_options.push(name.to_owned()),
            _ => given.push((name, value)),
        }
    }
    if !body.0.is_empty() {
        return Err(violation("invalid startup packet layout: expected terminator as last byte"));
    }
    if startup.user.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    startup.settings = options;
    startup.settings.append(&mut given);
    Ok(Packet::Startup(startup))
}

/// `-c name=value --name=value`, split at blanks that no backslash protects.
fn parse_options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => words.last_mut().expect("never empty").extend(characters.next()),
            c if c.is_ascii_whitespace() => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    let mut words = words.into_iter().filter(|w| !w.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            Some("") => words.next(),
            Some(rest) => Some(rest.to_owned()),
            None => None,
        };
        let Some((name, value)) = assignment.as_deref().and_then(|a| a.split_once('=')) else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("invalid command-line argument for server process: {word}"),
            ));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

async fn admit(mut channel: Channel, startup: Startup, roles: &Roles) -> Option<Opening> {
    if startup.minor_version > 0 || !startup.protocol_options.is_empty() {
        channel.output.put(&NegotiateProtocolVersion::new(PROTOCOL_3_0, startup.protocol_options.clone()));
    }
    if let Login::Password(scram) = roles.login() {
        let proved = prove(&mut channel, scram, roles.exists(&startup.user)).await?;
        if let Err(why) = proved {
            tracing::info!(user = startup.user, why, "authentication failed");
            let error = SqlError::new(
                SqlState::INVALID_PASSWORD,
                format!("password authentication failed for user \"{}\"", startup.user),
            );
            return refuse(channel, error).await;
        }
    }
    if !roles.exists(&startup.user) {
        let error = SqlError::new(SqlState::INVALID_AUTHORIZATION, format!("role \"{}\" does not exist", startup.user));
        return refuse(channel, error).await;
    }
    let database = startup.database.filter(|d| !d.is_empty()).unwrap_or_else(|| startup.user.clone());
    if !roles.has_database(&database) {
        let error = SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{database}\" does not exist"));
        return refuse(channel, error).await;
    }
    channel.output.put(&Authentication::Ok);
    Some(Opening::Client(Box::new(Client {
        reader: channel.reader,
        output: channel.output,
        buffer: channel.buffer,
        user: startup.user,
        database,
        settings: startup.settings,
    })))
}

/// The SCRAM exchange. `None`: the client is gone.
async fn prove(channel: &mut Channel, scram: &crate::access::Scram, exists: bool) -> Option<Result<(), String>> {
    channel.output.put(&Authentication::SASL(scram.mechanisms(channel.secure)));
    let first = match read_password(channel).await? {
        Ok(body) => body,
        Err(why) => return Some(Err(why)),
    };
    let mut body = Body(first);
    let parsed = body.text().and_then(|mechanism| body.u32().map(|length| (mechanism, length as usize)));
    let (mechanism, length) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return Some(Err(error.to_string())),
    };
    if body.0.len() != length {
        return Some(Err("malformed SASL initial response".into()));
    }
    let (reply, step) = match scram.first(&mechanism, &body.0, channel.secure, exists) {
        Ok(next) => next,
        Err(why) => return Some(Err(why)),
    };
    channel.output.put(&Authentication::SASLContinue(reply.into()));
    let last = match read_password(channel).await? {
        Ok(body) => body,
        Err(why) => return Some(Err(why)),
    };
    Some(step.last(&last).map(|reply| channel.output.put(&Authentication::SASLFinal(reply.into()))))
}

async fn read_password(channel: &mut Channel) -> Option<Result<Bytes, String>> {
    channel.output.flush().await.ok()?;
    loop {
        match codec::next_frame(&mut channel.buffer, UNAUTHENTICATED_BYTES_MAX) {
            Ok(Some(frame)) if frame.kind == b'p' => return Some(Ok(frame.body)),
            Ok(Some(frame)) => {
                return Some(Err(format!("expected password response, got message type {}", frame.kind)));
            }
            Err(error) => return Some(Err(error.to_string())),
            Ok(None) => {
                if channel.reader.read_buf(&mut channel.buffer).await.ok()? == 0 {
                    return None;
                }
            }
        }
    }
}

/// Says why, and closes.
async fn refuse(mut channel: Channel, error: SqlError) -> Option<Opening> {
    let mut bytes = BytesMut::new();
    error_response(Severity::Fatal, &error).encode(&mut bytes).ok()?;
    channel.output.put_encoded(&bytes);
    channel.output.flush().await.ok()?;
    channel.output.shutdown().await;
    Some(Opening::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: u32, pairs: &[(&str, &str)]) -> Bytes {
        let mut bytes = version.to_be_bytes().to_vec();
        for (name, value) in pairs {
            bytes.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        bytes.push(0);
        bytes.into()
    }

    fn startup(pairs: &[(&str, &str)]) -> Result<Startup, SqlError> {
        match parse_packet(packet(3 << 16, pairs))? {
            Packet::Startup(startup) => Ok(startup),
            Packet::Cancel { .. } => panic!("no cancel request"),
        }
    }

    #[test]
    fn options_become_settings_before_those_of_the_packet() {
        let startup = startup(&[
            ("user", "postgres"),
            ("DateStyle", "ISO"),
            ("options", r"-c search_path=a\ b --statement-timeout=5s -cgeqo=off"),
        ])
        .expect("well formed");
        let names: Vec<_> = startup.settings.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(names, ["search_path=a b", "statement_timeout=5s", "geqo=off", "DateStyle=ISO"]);
    }

    #[test]
    fn malformed_packets_are_refused() {
        assert_eq!(startup(&[("database", "x")]).unwrap_err().state(), SqlState::INVALID_AUTHORIZATION);
        assert_eq!(startup(&[("user", "u"), ("options", "-x")]).unwrap_err().state(), SqlState::SYNTAX_ERROR);
        assert_eq!(
            startup(&[("user", "u"), ("replication", "database")]).unwrap_err().state(),
            SqlState::FEATURE_NOT_SUPPORTED
        );
        assert!(parse_packet(packet(2 << 16, &[("user", "u")])).is_err());
        let whole = packet(3 << 16, &[("user", "u")]);
        for cut in 0..whole.len() {
            assert!(parse_packet(whole.slice(..cut)).is_err(), "cut at {cut}");
        }
    }
}
