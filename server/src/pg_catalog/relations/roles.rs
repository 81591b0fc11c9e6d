//! `pg_authid` and its views. A node has one role; its password is told to nobody.

use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin::OWNER;
use crate::pg_catalog::names::ROLE;
use crate::pg_catalog::system_relation::{Rows, Source, row};

pub fn authid(_: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(
        rows,
        oid: OWNER,
        rolname: ROLE,
        rolsuper: true,
        rolinherit: true,
        rolcreaterole: true,
        rolcreatedb: true,
        rolcanlogin: true,
        rolreplication: true,
        rolbypassrls: true,
        rolconnlimit: -1,
    )
}

pub fn roles(_: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(
        rows,
        rolname: ROLE,
        rolsuper: true,
        rolinherit: true,
        rolcreaterole: true,
        rolcreatedb: true,
        rolcanlogin: true,
        rolreplication: true,
        rolconnlimit: -1,
        rolpassword: "********",
        rolbypassrls: true,
        oid: OWNER,
    )
}

pub fn users(_: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(
        rows,
        usename: ROLE,
        usesysid: OWNER,
        usecreatedb: true,
        usesuper: true,
        userepl: true,
        usebypassrls: true,
        passwd: "********",
    )
}

pub fn shadow(_: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(
        rows,
        usename: ROLE,
        usesysid: OWNER,
        usecreatedb: true,
        usesuper: true,
        userepl: true,
        usebypassrls: true,
    )
}
