//! PostgreSQL's types and the Arrow types that carry them: one table for the whole product.
//!
//! | PostgreSQL | Arrow | note |
//! |---|---|---|
//! | bool | Boolean | |
//! | int2, int4, int8 | Int16, Int32, Int64 | |
//! | oid, regclass, regtype, … | UInt32 | metadata names the type |
//! | float4, float8 | Float32, Float64 | |
//! | numeric(p,s) | Decimal128(p,s), from 39 digits on Decimal256(p,s) | |
//! | numeric | Decimal256(76,20) | more digits are `22003`; written without trailing zeros |
//! | text, varchar(n), name, "char", json, jsonb, unknown | Utf8 | metadata names the type; jsonb in canonical text |
//! | char(n) | Utf8 | stored without trailing blanks, padded when written |
//! | bytea | Binary | |
//! | date, time, timestamp, timestamptz | Date32, Time64(µs), Timestamp(µs), Timestamp(µs, "UTC") | infinity: the type's extreme values |
//! | interval | Interval(MonthDayNano) | whole microseconds |
//! | uuid | FixedSizeBinary(16) | |
//! | array of T | List(T) | the element field carries T's metadata |
//!
//! A field's metadata key [`TYPE_KEY`] holds `oid` or `oid:modifier` where the Arrow type alone does not tell.

/// Field metadata key for the PostgreSQL type.
pub const TYPE_KEY: &str = "pg";

/// A PostgreSQL type with its modifier (`-1` = none).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PgType {
    pub oid: u32,
    pub modifier: i32,
}

impl PgType {
    pub const fn of(oid: u32) -> Self {
        Self { oid, modifier: -1 }
    }
}

/// OIDs of the built-in types.
pub mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT2VECTOR: u32 = 22;
    pub const INT4: u32 = 23;
    pub const REGPROC: u32 = 24;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const OIDVECTOR: u32 = 30;
    pub const JSON: u32 = 114;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const REGCLASS: u32 = 2205;
    pub const REGTYPE: u32 = 2206;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
    pub const REGNAMESPACE: u32 = 4089;
    pub const REGROLE: u32 = 4096;
}
