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

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use sqlparser::ast;

use crate::sql::error::{Result, SqlError, SqlState};

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
    pub const TID: u32 = 27;
    pub const XID: u32 = 28;
    pub const CID: u32 = 29;
    pub const OIDVECTOR: u32 = 30;
    pub const JSON: u32 = 114;
    pub const PG_NODE_TREE: u32 = 194;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const ACLITEM: u32 = 1033;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const REGPROCEDURE: u32 = 2202;
    pub const REGOPER: u32 = 2203;
    pub const REGCLASS: u32 = 2205;
    pub const REGTYPE: u32 = 2206;
    pub const RECORD: u32 = 2249;
    pub const ANYARRAY: u32 = 2277;
    pub const VOID: u32 = 2278;
    pub const UUID: u32 = 2950;
    pub const PG_LSN: u32 = 3220;
    pub const JSONB: u32 = 3802;
    pub const REGNAMESPACE: u32 = 4089;
    pub const REGROLE: u32 = 4096;
    pub const REGCOLLATION: u32 = 4191;
}

/// What `pg_type` says of a built-in type.
#[derive(Clone, Copy, Debug)]
pub struct TypeInfo {
    pub oid: u32,
    /// `typname`.
    pub name: &'static str,
    /// `typarray`; 0 = none.
    pub array: u32,
    /// `typcategory`.
    pub category: char,
    /// `typispreferred`.
    pub preferred: bool,
    /// `typlen`.
    pub length: i16,
    /// As `format_type` says it, without modifier.
    pub display: &'static str,
}

const fn info(
    oid: u32,
    name: &'static str,
    array: u32,
    category: char,
    preferred: bool,
    length: i16,
    display: &'static str,
) -> TypeInfo {
    TypeInfo { oid, name, array, category, preferred, length, display }
}

/// Every built-in type but the arrays, which follow from [`TypeInfo::array`]. Ascending by OID.
pub const TYPES: &[TypeInfo] = &[
    info(16, "bool", 1000, 'B', true, 1, "boolean"),
    info(17, "bytea", 1001, 'U', false, -1, "bytea"),
    info(18, "char", 1002, 'Z', false, 1, "\"char\""),
    info(19, "name", 1003, 'S', false, 64, "name"),
    info(20, "int8", 1016, 'N', false, 8, "bigint"),
    info(21, "int2", 1005, 'N', false, 2, "smallint"),
    info(22, "int2vector", 1006, 'A', false, -1, "int2vector"),
    info(23, "int4", 1007, 'N', false, 4, "integer"),
    info(24, "regproc", 1008, 'N', false, 4, "regproc"),
    info(25, "text", 1009, 'S', true, -1, "text"),
    info(26, "oid", 1028, 'N', true, 4, "oid"),
    info(27, "tid", 1010, 'U', false, 6, "tid"),
    info(28, "xid", 1011, 'U', false, 4, "xid"),
    info(29, "cid", 1012, 'U', false, 4, "cid"),
    info(30, "oidvector", 1013, 'A', false, -1, "oidvector"),
    info(114, "json", 199, 'U', false, -1, "json"),
    info(194, "pg_node_tree", 0, 'Z', false, -1, "pg_node_tree"),
    info(700, "float4", 1021, 'N', false, 4, "real"),
    info(701, "float8", 1022, 'N', true, 8, "double precision"),
    info(705, "unknown", 0, 'X', false, -2, "unknown"),
    info(1033, "aclitem", 1034, 'U', false, 12, "aclitem"),
    info(1042, "bpchar", 1014, 'S', false, -1, "character"),
    info(1043, "varchar", 1015, 'S', false, -1, "character varying"),
    info(1082, "date", 1182, 'D', false, 4, "date"),
    info(1083, "time", 1183, 'D', false, 8, "time without time zone"),
    info(1114, "timestamp", 1115, 'D', false, 8, "timestamp without time zone"),
    info(1184, "timestamptz", 1185, 'D', true, 8, "timestamp with time zone"),
    info(1186, "interval", 1187, 'T', true, 16, "interval"),
    info(1700, "numeric", 1231, 'N', false, -1, "numeric"),
    info(2202, "regprocedure", 2207, 'N', false, 4, "regprocedure"),
    info(2203, "regoper", 2208, 'N', false, 4, "regoper"),
    info(2205, "regclass", 2210, 'N', false, 4, "regclass"),
    info(2206, "regtype", 2211, 'N', false, 4, "regtype"),
    info(2249, "record", 2287, 'P', false, -1, "record"),
    info(2277, "anyarray", 0, 'P', false, -1, "anyarray"),
    info(2278, "void", 0, 'P', false, 4, "void"),
    info(2950, "uuid", 2951, 'U', false, 16, "uuid"),
    info(3220, "pg_lsn", 3221, 'U', false, 8, "pg_lsn"),
    info(3802, "jsonb", 3807, 'U', false, -1, "jsonb"),
    info(4089, "regnamespace", 4090, 'N', false, 4, "regnamespace"),
    info(4096, "regrole", 4097, 'N', false, 4, "regrole"),
    info(4191, "regcollation", 4192, 'N', false, 4, "regcollation"),
];

pub fn type_info(oid: u32) -> Option<&'static TypeInfo> {
    TYPES.binary_search_by_key(&oid, |t| t.oid).ok().map(|i| &TYPES[i])
}

/// The array type of an element type, or of an array type itself (arrays of arrays are of the same type).
pub fn array_of(element: u32) -> Option<u32> {
    if TYPES.iter().any(|t| t.array == element && element != 0) {
        return Some(element);
    }
    type_info(element).map(|t| t.array).filter(|a| *a != 0)
}

/// The element type of an array type; `None` = no array. The two vectors count as arrays.
pub fn element_of(array: u32) -> Option<u32> {
    match array {
        0 => None,
        oid::INT2VECTOR => Some(oid::INT2),
        oid::OIDVECTOR => Some(oid::OID),
        _ => TYPES.iter().find(|t| t.array == array).map(|t| t.oid),
    }
}

/// `typcategory`: `A` for arrays.
pub fn category(type_oid: u32) -> char {
    match type_info(type_oid) {
        Some(t) => t.category,
        None if element_of(type_oid).is_some() => 'A',
        None => 'U',
    }
}

pub fn is_preferred(type_oid: u32) -> bool {
    type_info(type_oid).is_some_and(|t| t.preferred)
}

/// Types whose value is an object's OID.
pub fn is_oid_alias(type_oid: u32) -> bool {
    matches!(
        type_oid,
        oid::REGPROC
            | oid::REGPROCEDURE
            | oid::REGOPER
            | oid::REGCLASS
            | oid::REGTYPE
            | oid::REGNAMESPACE
            | oid::REGROLE
            | oid::REGCOLLATION
    )
}

/// `typname`; arrays have a leading underscore.
pub fn type_name(type_oid: u32) -> String {
    match (type_info(type_oid), element_of(type_oid)) {
        (Some(t), _) => t.name.to_owned(),
        (None, Some(element)) => format!("_{}", type_name(element)),
        (None, None) => "???".to_owned(),
    }
}

/// A type by the name a user writes: `typname`, an SQL alias, either with `[]`.
pub fn type_by_name(name: &str) -> Option<u32> {
    if let Some(element) = name.strip_suffix("[]") {
        return array_of(type_by_name(element.trim_end())?);
    }
    if let Some(t) = TYPES.iter().find(|t| t.name == name) {
        return Some(t.oid);
    }
    let found = match name {
        "boolean" => oid::BOOL,
        "smallint" => oid::INT2,
        "int" | "integer" => oid::INT4,
        "bigint" => oid::INT8,
        "real" => oid::FLOAT4,
        "float" | "double precision" => oid::FLOAT8,
        "decimal" | "dec" => oid::NUMERIC,
        "character varying" => oid::VARCHAR,
        "character" => oid::BPCHAR,
        "time without time zone" => oid::TIME,
        "timestamp without time zone" => oid::TIMESTAMP,
        "timestamp with time zone" => oid::TIMESTAMPTZ,
        "\"char\"" => oid::CHAR,
        _ => {
            let element = name.strip_prefix('_')?;
            return TYPES.iter().find(|t| t.name == element && t.array != 0).map(|t| t.array);
        }
    };
    Some(found)
}

/// As PostgreSQL's `format_type`: `character varying(20)`, `numeric(10,2)[]`.
pub fn format_type(t: PgType) -> String {
    if t.oid == 0 {
        return "-".to_owned();
    }
    if !matches!(t.oid, oid::INT2VECTOR | oid::OIDVECTOR)
        && let Some(element) = element_of(t.oid)
    {
        return format!("{}[]", format_type(PgType { oid: element, modifier: t.modifier }));
    }
    let Some(info) = type_info(t.oid) else { return "???".to_owned() };
    let m = t.modifier;
    match t.oid {
        oid::VARCHAR | oid::BPCHAR if m >= 4 => format!("{}({})", info.display, m - 4),
        oid::BPCHAR => "bpchar".to_owned(),
        oid::NUMERIC => match numeric_precision_scale(m) {
            Some((p, s)) => format!("numeric({p},{s})"),
            None => "numeric".to_owned(),
        },
        oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ if m >= 0 => {
            let (head, tail) = info.display.split_once(' ').unwrap_or((info.display, ""));
            format!("{head}({m}) {tail}")
        }
        _ => info.display.to_owned(),
    }
}

/// Precision and scale of a numeric modifier.
pub fn numeric_precision_scale(modifier: i32) -> Option<(u8, i8)> {
    if modifier < 4 {
        return None;
    }
    let m = modifier - 4;
    let scale = ((m & 0x7ff) ^ 1024) - 1024;
    Some((u8::try_from((m >> 16) & 0xffff).ok()?, i8::try_from(scale).ok()?))
}

pub const fn numeric_modifier(precision: u8, scale: i8) -> i32 {
    (((precision as i32) << 16) | ((scale as i32) & 0x7ff)) + 4
}

/// The Arrow type of `numeric` without modifier.
pub const NUMERIC_ANY: DataType = DataType::Decimal256(76, 20);

/// The Arrow type that carries a PostgreSQL type; `None` for a type we do not have.
pub fn arrow_type(t: PgType) -> Option<DataType> {
    if let Some(element) = element_of(t.oid) {
        return Some(DataType::List(Arc::new(field("item", PgType { oid: element, modifier: t.modifier }))));
    }
    Some(match t.oid {
        oid::BOOL => DataType::Boolean,
        oid::INT2 => DataType::Int16,
        oid::INT4 => DataType::Int32,
        oid::INT8 | oid::PG_LSN => DataType::Int64,
        oid::OID | oid::XID | oid::CID => DataType::UInt32,
        alias if is_oid_alias(alias) => DataType::UInt32,
        oid::FLOAT4 => DataType::Float32,
        oid::FLOAT8 => DataType::Float64,
        oid::NUMERIC => match numeric_precision_scale(t.modifier) {
            Some((p, s)) if p <= 38 => DataType::Decimal128(p, s),
            Some((p, s)) => DataType::Decimal256(p, s),
            None => NUMERIC_ANY,
        },
        oid::TEXT
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::NAME
        | oid::CHAR
        | oid::JSON
        | oid::JSONB
        | oid::UNKNOWN
        | oid::TID
        | oid::PG_NODE_TREE
        | oid::ACLITEM
        | oid::RECORD
        | oid::ANYARRAY
        | oid::VOID => DataType::Utf8,
        oid::BYTEA => DataType::Binary,
        oid::DATE => DataType::Date32,
        oid::TIME => DataType::Time64(TimeUnit::Microsecond),
        oid::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        oid::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        oid::UUID => DataType::FixedSizeBinary(16),
        _ => return None,
    })
}

/// The type an Arrow type means without metadata.
pub fn default_type(data_type: &DataType) -> PgType {
    PgType::of(match data_type {
        DataType::Boolean => oid::BOOL,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => oid::INT2,
        DataType::UInt16 | DataType::Int32 => oid::INT4,
        DataType::Int64 => oid::INT8,
        DataType::UInt32 => oid::OID,
        DataType::UInt64 | DataType::Decimal256(76, 20) => oid::NUMERIC,
        DataType::Float16 | DataType::Float32 => oid::FLOAT4,
        DataType::Float64 => oid::FLOAT8,
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => {
            return PgType { oid: oid::NUMERIC, modifier: numeric_modifier(*p, *s) };
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => oid::BYTEA,
        DataType::Date32 | DataType::Date64 => oid::DATE,
        DataType::Time32(_) | DataType::Time64(_) => oid::TIME,
        DataType::Timestamp(_, None) => oid::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => oid::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => oid::INTERVAL,
        DataType::FixedSizeBinary(16) => oid::UUID,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let element = pg_type(item);
            return PgType { oid: array_of(element.oid).unwrap_or(1009), modifier: element.modifier };
        }
        _ => oid::TEXT,
    })
}

/// The PostgreSQL type of a field: its metadata, else what its Arrow type means.
pub fn pg_type(field: &Field) -> PgType {
    field.metadata().get(TYPE_KEY).and_then(|text| parse_key(text)).unwrap_or_else(|| default_type(field.data_type()))
}

fn parse_key(text: &str) -> Option<PgType> {
    let (type_oid, modifier) = match text.split_once(':') {
        Some((a, b)) => (a, b.parse().ok()?),
        None => (text, -1),
    };
    Some(PgType { oid: type_oid.parse().ok()?, modifier })
}

/// A nullable field of a PostgreSQL type, with metadata where the Arrow type alone does not tell. Text for a type we do
/// not have.
pub fn field(name: &str, t: PgType) -> Field {
    typed_field(name, arrow_type(t).unwrap_or(DataType::Utf8), t)
}

/// As [`field`], over an Arrow type that is already known (a numeric literal's own scale, an array of two dimensions).
pub fn typed_field(name: &str, data_type: DataType, t: PgType) -> Field {
    let plain = default_type(&data_type) == t;
    let field = Field::new(name, data_type, true);
    if plain {
        return field;
    }
    let key = if t.modifier == -1 { t.oid.to_string() } else { format!("{}:{}", t.oid, t.modifier) };
    field.with_metadata(HashMap::from([(TYPE_KEY.to_owned(), key)]))
}

pub fn field_ref(name: &str, t: PgType) -> FieldRef {
    Arc::new(field(name, t))
}

/// A type as written in SQL (`varchar(20)`, `numeric(10,2)[]`). `42704` for one we do not have.
pub fn from_sql(written: &ast::DataType) -> Result<PgType> {
    use ast::DataType as D;
    let plain = |type_oid| Ok(PgType::of(type_oid));
    match written {
        D::Boolean | D::Bool => plain(oid::BOOL),
        D::SmallInt(_) | D::Int2(_) => plain(oid::INT2),
        D::Int(_) | D::Integer(_) | D::Int4(_) => plain(oid::INT4),
        D::BigInt(_) | D::Int8(_) => plain(oid::INT8),
        D::Real | D::Float4 => plain(oid::FLOAT4),
        D::Double(_) | D::DoublePrecision | D::Float8 => plain(oid::FLOAT8),
        D::Float(ast::ExactNumberInfo::Precision(p)) if *p <= 24 => plain(oid::FLOAT4),
        D::Float(_) => plain(oid::FLOAT8),
        D::Numeric(n) | D::Decimal(n) | D::Dec(n) => numeric_from_sql(n),
        D::Text => plain(oid::TEXT),
        D::Varchar(n) | D::CharacterVarying(n) | D::CharVarying(n) => character(oid::VARCHAR, n.as_ref(), None),
        D::Char(n) | D::Character(n) => character(oid::BPCHAR, n.as_ref(), Some(1)),
        D::Bytea => plain(oid::BYTEA),
        D::Date => plain(oid::DATE),
        D::Time(p, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => precision(oid::TIME, *p),
        D::Timestamp(p, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => precision(oid::TIMESTAMP, *p),
        D::Timestamp(p, _) => precision(oid::TIMESTAMPTZ, *p),
        D::Interval { .. } => plain(oid::INTERVAL),
        D::Uuid => plain(oid::UUID),
        D::JSON => plain(oid::JSON),
        D::JSONB => plain(oid::JSONB),
        D::Regclass => plain(oid::REGCLASS),
        D::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _))
        | D::Array(ast::ArrayElemTypeDef::AngleBracket(inner))
        | D::Array(ast::ArrayElemTypeDef::Parenthesis(inner)) => {
            let element = from_sql(inner)?;
            match array_of(element.oid) {
                Some(array) => Ok(PgType { oid: array, modifier: element.modifier }),
                None => Err(undefined_type(&format!("{}[]", type_name(element.oid)))),
            }
        }
        D::Custom(name, modifiers) => custom(name, modifiers),
        other => Err(undefined_type(&other.to_string().to_lowercase())),
    }
}

fn undefined_type(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn custom(name: &ast::ObjectName, modifiers: &[String]) -> Result<PgType> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|p| p.as_ident())
        .map(|i| if i.quote_style.is_some() { i.value.clone() } else { i.value.to_lowercase() })
        .collect();
    let written = parts.join(".");
    let base = match parts.as_slice() {
        [base] => base,
        [schema, base] if schema == "pg_catalog" => base,
        _ => return Err(undefined_type(&written)),
    };
    let type_oid = type_by_name(base).filter(|o| *o != oid::UNKNOWN || base == "unknown");
    let type_oid = type_oid.ok_or_else(|| undefined_type(&written))?;
    let numbers: Vec<i64> = modifiers.iter().filter_map(|m| m.parse().ok()).collect();
    match (type_oid, numbers.as_slice()) {
        (_, []) => Ok(PgType::of(type_oid)),
        (oid::VARCHAR | oid::BPCHAR, [n]) if *n > 0 && *n <= 10_485_760 => {
            Ok(PgType { oid: type_oid, modifier: *n as i32 + 4 })
        }
        (oid::NUMERIC, [p]) => numeric_checked(*p, 0),
        (oid::NUMERIC, [p, s]) => numeric_checked(*p, *s),
        (oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ, [p]) => precision(type_oid, u64::try_from(*p).ok()),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("type modifier is not allowed for type \"{}\"", type_name(type_oid)),
        )),
    }
}

fn numeric_from_sql(n: &ast::ExactNumberInfo) -> Result<PgType> {
    match n {
        ast::ExactNumberInfo::None => Ok(PgType::of(oid::NUMERIC)),
        ast::ExactNumberInfo::Precision(p) => numeric_checked(*p as i64, 0),
        ast::ExactNumberInfo::PrecisionAndScale(p, s) => numeric_checked(*p as i64, *s),
    }
}

/// PostgreSQL allows 1,000 digits; a column carries at most 76.
fn numeric_checked(p: i64, s: i64) -> Result<PgType> {
    if !(1..=1000).contains(&p) {
        let message = format!("NUMERIC precision {p} must be between 1 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if !(-1000..=1000).contains(&s) {
        let message = format!("NUMERIC scale {s} must be between -1000 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if p > 76 || s < 0 || s > p {
        return Err(SqlError::unsupported(format_args!("numeric({p},{s})"))
            .hint("Use a precision up to 76 and a scale between 0 and the precision."));
    }
    Ok(PgType { oid: oid::NUMERIC, modifier: numeric_modifier(p as u8, s as i8) })
}

fn character(type_oid: u32, n: Option<&ast::CharacterLength>, absent: Option<u64>) -> Result<PgType> {
    let length = match n {
        Some(ast::CharacterLength::IntegerLength { length, .. }) => Some(*length),
        Some(ast::CharacterLength::Max) => None,
        None => absent,
    };
    let name = if type_oid == oid::VARCHAR { "varchar" } else { "char" };
    match length {
        None => Ok(PgType::of(type_oid)),
        Some(0) => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("length for type {name} must be at least 1")))
        }
        Some(n) if n > 10_485_760 => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("length for type {name} cannot exceed 10485760"),
        )),
        Some(n) => Ok(PgType { oid: type_oid, modifier: n as i32 + 4 }),
    }
}

fn precision(type_oid: u32, p: Option<u64>) -> Result<PgType> {
    Ok(PgType { oid: type_oid, modifier: p.map_or(-1, |p| p.min(6) as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_goes_to_arrow_and_back() {
        for t in TYPES {
            for type_oid in [t.oid, t.array].into_iter().filter(|o| *o != 0) {
                let there = field("x", PgType::of(type_oid));
                assert_eq!(pg_type(&there), PgType::of(type_oid), "{}", t.name);
            }
        }
        for modified in [
            PgType { oid: oid::VARCHAR, modifier: 24 },
            PgType { oid: oid::NUMERIC, modifier: numeric_modifier(10, 2) },
            PgType { oid: oid::NUMERIC, modifier: numeric_modifier(76, 20) },
            PgType { oid: 1231, modifier: numeric_modifier(50, 3) },
            PgType { oid: 1015, modifier: 14 },
        ] {
            assert_eq!(pg_type(&field("x", modified)), modified);
        }
    }

    #[test]
    fn names_are_postgres_names() {
        assert!(TYPES.windows(2).all(|w| w[0].oid < w[1].oid));
        for (name, type_oid, formatted) in [
            ("int", oid::INT4, "integer"),
            ("_int4", 1007, "integer[]"),
            ("double precision", oid::FLOAT8, "double precision"),
            ("timestamptz", oid::TIMESTAMPTZ, "timestamp with time zone"),
            ("text[]", 1009, "text[]"),
        ] {
            assert_eq!(type_by_name(name), Some(type_oid));
            assert_eq!(format_type(PgType::of(type_oid)), formatted);
        }
        assert_eq!(format_type(PgType { oid: oid::VARCHAR, modifier: 24 }), "character varying(20)");
        assert_eq!(format_type(PgType { oid: oid::NUMERIC, modifier: numeric_modifier(10, 2) }), "numeric(10,2)");
        assert_eq!(format_type(PgType { oid: oid::TIMESTAMPTZ, modifier: 3 }), "timestamp(3) with time zone");
        assert_eq!(type_by_name("nosuch"), None);
    }
}
