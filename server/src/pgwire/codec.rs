//! Frontend messages out of bytes, checked: a malformed message is an error, never a panic, and never reads into the next.
//! Uses pgwire's message types; does not use its decoders, which trust lengths and counts inside a message.

use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::extendedquery::{Bind, Close, Describe, Execute, Parse};

use alluvium_exec::{SqlError, SqlState};

/// The longest message a session takes; PostgreSQL's own limit is four times that.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// The longest message before a client is known.
pub const UNAUTHENTICATED_BYTES_MAX: usize = 10_000;

/// What a client says once it is known.
#[derive(Debug)]
pub enum Frontend {
    Query(String),
    Parse(Parse),
    Bind(Bind),
    Describe(Describe),
    Execute(Execute),
    Close(Close),
    Flush,
    Sync,
    FunctionCall,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    Terminate,
    /// Password, SASLInitialResponse or SASLResponse: only the one who asked knows which.
    Password(Bytes),
}

/// A message cut from the stream, not yet decoded.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub body: Bytes,
}

/// Cuts the next whole message off. `None`: more bytes are needed. An error means that the stream can no longer be
/// understood and must end.
pub fn next_frame(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<Frame>, SqlError> {
    if buffer.len() < 5 {
        return Ok(None);
    }
    let kind = buffer[0];
    if !is_frontend_kind(kind) {
        return Err(violation(format!("invalid frontend message type {kind}")));
    }
    let length = u32::from_be_bytes([buffer[1], buffer[2], buffer[3], buffer[4]]) as usize;
    if length < 4 {
        return Err(violation("invalid message length"));
    }
    if length > bytes_max {
        return Err(violation(format!("message of {length} bytes is longer than {bytes_max} bytes")));
    }
    if buffer.len() < 1 + length {
        return Ok(None);
    }
    buffer.advance(5);
    Ok(Some(Frame { kind, body: buffer.split_to(length - 4).freeze() }))
}

fn is_frontend_kind(kind: u8) -> bool {
    matches!(kind, b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S' | b'F' | b'd' | b'c' | b'f' | b'X' | b'p')
}

/// Decodes a frame's body. An error concerns this message alone.
pub fn decode(frame: Frame) -> Result<Frontend, SqlError> {
    let mut body = Body(frame.body);
    let message = match frame.kind {
        b'Q' => Frontend::Query(body.text()?),
        b'P' => {
            let (name, query) = (body.name()?, body.text()?);
            let count = body.count(4)?;
            let types = (0..count).map(|_| body.u32()).collect::<Result<_, _>>()?;
            Frontend::Parse(Parse::new(name, query, types))
        }
        b'B' => {
            let (portal, statement) = (body.name()?, body.name()?);
            let count = body.count(2)?;
            let formats = (0..count).map(|_| body.i16()).collect::<Result<_, _>>()?;
            let count = body.count(4)?;
            let values = (0..count).map(|_| body.value()).collect::<Result<_, _>>()?;
            let count = body.count(2)?;
            let results = (0..count).map(|_| body.i16()).collect::<Result<_, _>>()?;
            Frontend::Bind(Bind::new(portal, statement, formats, values, results))
        }
        b'D' => Frontend::Describe(Describe::new(body.target("DESCRIBE")?, body.name()?)),
        b'C' => Frontend::Close(Close::new(body.target("CLOSE")?, body.name()?)),
        b'E' => {
            let name = body.name()?;
            Frontend::Execute(Execute::new(name, body.u32()? as i32))
        }
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'F' => return Ok(Frontend::FunctionCall),
        b'd' => return Ok(Frontend::CopyData(body.0)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(body.text()?),
        b'X' => return Ok(Frontend::Terminate),
        b'p' => return Ok(Frontend::Password(body.0)),
        kind => return Err(violation(format!("invalid frontend message type {kind}"))),
    };
    if !body.0.is_empty() {
        return Err(violation("invalid message format"));
    }
    Ok(message)
}

/// The rest of a message.
pub struct Body(pub Bytes);

impl Body {
    /// A zero-terminated text.
    pub fn text(&mut self) -> Result<String, SqlError> {
        let end = self.0.iter().position(|b| *b == 0).ok_or_else(|| violation("invalid string in message"))?;
        let bytes = self.0.split_to(end);
        self.0.advance(1);
        utf8(&bytes)
    }

    /// A text of which the empty one means "unnamed".
    fn name(&mut self) -> Result<Option<String>, SqlError> {
        self.text().map(|n| (!n.is_empty()).then_some(n))
    }

    /// A count of elements that take at least `bytes` each.
    fn count(&mut self, bytes: usize) -> Result<usize, SqlError> {
        let count = usize::from(self.i16()? as u16);
        if count * bytes > self.0.len() {
            return Err(short());
        }
        Ok(count)
    }

    fn value(&mut self) -> Result<Option<Bytes>, SqlError> {
        let length = self.u32()? as i32;
        let Ok(length) = usize::try_from(length) else {
            return if length == -1 { Ok(None) } else { Err(violation("invalid message format")) };
        };
        if length > self.0.len() {
            return Err(short());
        }
        Ok(Some(self.0.split_to(length)))
    }

    fn target(&mut self, what: &str) -> Result<u8, SqlError> {
        if self.0.is_empty() {
            return Err(short());
        }
        let target = self.0.get_u8();
        if !matches!(target, b'S' | b'P') {
            return Err(violation(format!("invalid {what} message subtype {target}")));
        }
        Ok(target)
    }

    fn i16(&mut self) -> Result<i16, SqlError> {
        if self.0.len() < 2 { Err(short()) } else { Ok(self.0.get_i16()) }
    }

    pub fn u32(&mut self) -> Result<u32, SqlError> {
        if self.0.len() < 4 { Err(short()) } else { Ok(self.0.get_u32()) }
    }
}

fn utf8(bytes: &[u8]) -> Result<String, SqlError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| {
        let from = error.valid_up_to();
        let until = (from + error.error_len().unwrap_or(4)).min(bytes.len());
        let shown: Vec<String> = bytes[from..until].iter().map(|b| format!("0x{b:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    })
}

fn short() -> SqlError {
    violation("insufficient data left in message")
}

pub fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> Frame {
        Frame { kind, body: Bytes::copy_from_slice(body) }
    }

    #[test]
    fn every_cut_of_a_message_is_an_error_and_no_panic() {
        let messages: [(u8, &[u8]); 6] = [
            (b'Q', b"select 1\0"),
            (b'P', b"s\0select $1\0\0\x02\0\0\0\x17\0\0\0\x19"),
            (b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\0"),
            (b'D', b"Sname\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'f', b"why\0"),
        ];
        for (kind, body) in messages {
            assert!(decode(frame(kind, body)).is_ok(), "{}", kind as char);
            for cut in 0..body.len() {
                let error = decode(frame(kind, &body[..cut])).expect_err("a cut message");
                assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION, "{} cut at {cut}", kind as char);
            }
            let longer = [body, b"x"].concat();
            assert!(decode(frame(kind, &longer)).is_err(), "{} with a byte too many", kind as char);
        }
    }

    #[test]
    fn counts_beyond_the_message_are_refused() {
        assert!(decode(frame(b'P', b"\0\0\xff\xff\0\0\0\x17")).is_err());
        assert!(decode(frame(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0")).is_err());
        assert!(decode(frame(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0")).is_err());
    }

    #[test]
    fn text_must_be_utf8() {
        let error = decode(frame(b'Q', b"select '\xc3\x28'\0")).expect_err("not UTF-8");
        assert_eq!(error.state(), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(error.fields().message, "invalid byte sequence for encoding \"UTF8\": 0xc3");
    }

    #[test]
    fn frames_are_cut_one_by_one() {
        let mut buffer = BytesMut::from(&b"S\0\0\0\x04Q\0\0\0\x05\0H\0\0"[..]);
        let kinds: Vec<u8> =
            std::iter::from_fn(|| next_frame(&mut buffer, 100).expect("well formed")).map(|f| f.kind).collect();
        assert_eq!(kinds, b"SQ");
        assert_eq!(&buffer[..], b"H\0\0");
        assert!(next_frame(&mut BytesMut::from(&b"Z\0\0\0\x04"[..]), 100).is_err());
        assert!(next_frame(&mut BytesMut::from(&b"Q\0\0\0\x03"[..]), 100).is_err());
        assert!(next_frame(&mut BytesMut::from(&b"Q\x7f\xff\xff\xff"[..]), 100).is_err());
    }
}
