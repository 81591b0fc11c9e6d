//! `pg_settings`, `pg_stat_activity` and its like, `pg_timezone_names`: the running server, asked through the session.

use alluvium_exec::planning::datetime::Zone;
use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin::{DATABASE, OWNER};
use crate::pg_catalog::system_relation::{Rows, Source, row};
use crate::pg_catalog::value::Value;

pub fn settings(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for (name, setting, description) in source.session.host.settings() {
        row!(rows, name: name, setting: setting, short_desc: description, pending_restart: false)?;
    }
    Ok(())
}

pub fn activity(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for a in source.session.host.activity() {
        row!(
            rows,
            datid: DATABASE,
            datname: a.database,
            pid: a.pid,
            usesysid: OWNER,
            usename: a.user,
            application_name: a.application_name,
            client_addr: a.client_address,
            client_port: a.client_port,
            backend_start: a.backend_start_us,
            xact_start: a.transaction_start_us,
            query_start: a.query_start_us,
            state: a.state,
            query: a.query,
            backend_type: "client backend",
        )?;
    }
    Ok(())
}

pub fn databases(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let sessions = source.session.host.activity().len();
    row!(rows, datid: DATABASE, datname: &*source.session.database, numbackends: sessions as i64)
}

pub fn gssapi(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for a in source.session.host.activity() {
        row!(rows, pid: a.pid, gss_authenticated: false, encrypted: false)?;
    }
    Ok(())
}

pub fn time_zones(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let now = source.session.statement_time_us;
    let january = first_of_january(now);
    for zone in chrono_tz::TZ_VARIANTS {
        let Some(known) = Zone::parse(zone.name()) else { continue };
        let offset = known.offset_at(now);
        row!(
            rows,
            name: zone.name(),
            abbrev: known.abbreviation_at(now),
            utc_offset: Value::Interval(offset),
            is_dst: is_summer(known, offset, january),
        )?;
    }
    Ok(())
}

fn first_of_january(now_us: i64) -> i64 {
    use alluvium_exec::planning::datetime::{DAY_US, civil_from_days, days_from_civil};
    let (year, _, _) = civil_from_days(now_us.div_euclid(DAY_US));
    days_from_civil(year, 1, 1).saturating_mul(DAY_US)
}

/// Summer is when the clock is ahead of the least of the year's two offsets.
fn is_summer(zone: Zone, offset: i64, january: i64) -> bool {
    const HALF_A_YEAR_US: i64 = 182 * 86_400_000_000;
    offset > zone.offset_at(january).min(zone.offset_at(january.saturating_add(HALF_A_YEAR_US)))
}
