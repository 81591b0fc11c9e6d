//! Who and where the session is, its settings, and the server's version.

use alluvium_exec::sql::error::{Result, SqlError, SqlState};

use super::{Call, Declarations};
use crate::pg_catalog::value::Value;

pub fn declare(d: &mut Declarations) {
    d.stable("version() text", |c| {
        let version = c.session.host.setting("server_version").unwrap_or_default();
        let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
        Ok(format!("PostgreSQL {version} on {arch}-{os}, {}-bit", usize::BITS).into())
    });
    for signature in ["current_database() name", "current_catalog() name"] {
        d.stable(signature, |c| Ok((*c.session.database).into()));
    }
    for signature in ["current_user() name", "session_user() name", "user() name", "current_role() name"] {
        d.stable(signature, |c| Ok((*c.session.user).into()));
    }
    d.stable("current_schema() name", |c| Ok(c.names.path(false).first().map(|(_, name)| *name).into()));
    d.stable("current_schemas(bool) name[]", |c| {
        let names: Vec<&str> = c.names.path(c.bool(0)?).into_iter().map(|(_, name)| name).collect();
        Ok(names.into())
    });
    d.stable("pg_backend_pid() int4", |c| Ok(c.session.backend_pid.into()));
    d.stable("pg_my_temp_schema() oid", |_| Ok(0_u32.into()));
    d.stable("pg_is_other_temp_schema(oid) bool", |_| Ok(false.into()));
    d.stable("current_setting(text) text", |c| setting(c, false));
    d.stable("current_setting(text,bool) text", |c| setting(c, c.bool(1)?));
    d.volatile("set_config(text,text,bool) text", |c| {
        c.session.host.set(c.text(0)?, c.text(1)?, c.bool(2)?).map(Value::from)
    });
    // A node listens on one address that the catalog does not know; a client's comes from its session.
    d.stable("inet_client_addr() inet", |c| Ok(own(c).and_then(|a| a.client_address).into()));
    d.stable("inet_client_port() int4", |c| {
        let own = own(c).filter(|a| a.client_address.is_some());
        Ok(own.map(|a| a.client_port).into())
    });
}

fn own(c: &Call<'_>) -> Option<alluvium_exec::session_context::Activity> {
    c.session.host.activity().into_iter().find(|a| a.pid == c.session.backend_pid)
}

fn setting(c: &Call<'_>, missing_is_null: bool) -> Result<Value> {
    let name = c.text(0)?;
    match c.session.host.setting(name) {
        Some(value) => Ok(value.into()),
        None if missing_is_null => Ok(Value::Null),
        None => {
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
        }
    }
}
