//! Signals to other sessions, notifications, the server's clock and role, advisory locks.

use alluvium_exec::planning::types::oid;
use alluvium_exec::sql::error::SqlError;
use alluvium_storage::base::clock;

use super::Declarations;
use crate::pg_catalog::builtin;
use crate::pg_catalog::value::Value;

pub fn declare(d: &mut Declarations) {
    d.volatile("pg_cancel_backend(int4) bool", |c| {
        Ok(i32::try_from(c.int(0)?).is_ok_and(|pid| c.session.host.cancel_backend(pid)).into())
    });
    d.volatile("pg_terminate_backend(int4) bool", |c| {
        Ok(i32::try_from(c.int(0)?).is_ok_and(|pid| c.session.host.terminate_backend(pid)).into())
    });
    d.volatile("pg_notify(text,text) void", |c| {
        c.session.host.notify(c.text(0)?, c.text(1)?);
        Ok("".into())
    });
    d.stable("pg_is_in_recovery() bool", |_| Ok(false.into()));
    d.stable("pg_is_wal_replay_paused() bool", |_| {
        Err(SqlError::new(alluvium_exec::SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is not in progress")
            .hint("Recovery control functions can only be executed during recovery."))
    });
    let started = clock::now_us();
    d.stable("pg_postmaster_start_time() timestamptz", move |_| Ok(started.into()));
    d.stable("pg_conf_load_time() timestamptz", move |_| Ok(started.into()));
    // Nobody can hold an advisory lock, so there is nothing to release.
    d.volatile("pg_advisory_unlock_all() void", |_| Ok("".into()));
    for signature in [
        "pg_advisory_lock(int8) void",
        "pg_advisory_lock(int4,int4) void",
        "pg_advisory_lock_shared(int8) void",
        "pg_advisory_xact_lock(int8) void",
        "pg_advisory_xact_lock(int4,int4) void",
        "pg_try_advisory_lock(int8) bool",
        "pg_try_advisory_lock(int4,int4) bool",
        "pg_try_advisory_xact_lock(int8) bool",
        "pg_advisory_unlock(int8) bool",
        "pg_advisory_unlock(int4,int4) bool",
    ] {
        d.volatile(signature, |_| {
            Err(SqlError::unsupported("an advisory lock").hint("Coordinate clients through rows of a table instead."))
        });
    }
    d.stable("pg_encoding_to_char(int4) name", |c| {
        let name = usize::try_from(c.int(0)?).ok().and_then(|at| ENCODINGS.get(at)).copied();
        Ok(name.unwrap_or_default().into())
    });
    d.stable("pg_char_to_encoding(name) int4", |c| {
        let plain = |name: &str| -> String {
            name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
        };
        let wanted = plain(c.text(0)?);
        let wanted = if wanted == "unicode" { "utf8".to_owned() } else { wanted };
        let at = ENCODINGS.iter().position(|name| plain(name) == wanted);
        Ok(at.map_or(-1, |at| at as i32).into())
    });
    d.stable("pg_client_encoding() name", |c| Ok(c.session.host.setting("client_encoding").into()));
    d.record(
        "pg_get_keywords() setof record",
        &[
            ("word", oid::TEXT),
            ("catcode", oid::CHAR),
            ("barelabel", oid::BOOL),
            ("catdesc", oid::TEXT),
            ("baredesc", oid::TEXT),
        ],
        |_| {
            let mut words: Vec<_> = builtin::keywords().iter().collect();
            words.sort_unstable_by_key(|(word, _)| **word);
            let row = |cells: &[Option<&'static str>]| {
                let cell = |(at, cell): (usize, &Option<&'static str>)| match (at, cell) {
                    (2, cell) => Value::from(cell.map(|c| c == "t")),
                    (_, cell) => Value::from(*cell),
                };
                Value::List(cells.iter().enumerate().map(cell).collect())
            };
            Ok(Value::List(words.into_iter().map(|(_, k)| row(&k.cells)).collect()))
        },
    );
}

/// PostgreSQL's encodings by number.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];
