//! The settings of one session: their values, and how a transaction takes them back.
//!
//! Each name has up to two values over its default: that of SET, which stays when the block commits, and that of SET
//! LOCAL, which ends with the block. A journal of what was before lets a rollback, to a savepoint or of the whole block,
//! undo both. Owns no lock: `SessionShared` keeps one around it, since SQL functions on compute threads reach it too.

pub mod table;
pub mod value;

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_exec::{SqlError, SqlState};

pub use table::SERVER_VERSION;
use table::{Access, DEFINITIONS, Definition};
use value::{normalize, quote_identifier, split_list};

pub struct Variables {
    values: HashMap<String, Slot>,
    /// The defaults of this session: what the startup packet and the server said. RESET goes back here.
    defaults: HashMap<String, String>,
    journal: Vec<(String, Slot)>,
    search_path: Arc<[String]>,
    /// Moves with every change.
    version: u64,
}

#[derive(Clone, Default, Debug, PartialEq, Eq)]
struct Slot {
    session: Option<String>,
    local: Option<String>,
}

/// How long a value stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Session,
    Local,
}

/// A point in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

impl Default for Variables {
    fn default() -> Self {
        let mut variables = Self {
            values: HashMap::new(),
            defaults: HashMap::new(),
            journal: Vec::new(),
            search_path: Arc::from([]),
            version: 0,
        };
        variables.changed();
        variables
    }
}

impl Variables {
    /// A setting of the startup packet: the session's own default.
    pub fn start_with(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        // asyncpg quotes the value as SQL would.
        let value = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')).unwrap_or(value);
        let (key, normal) = self.checked(name, value)?;
        self.defaults.insert(key, normal);
        self.changed();
        Ok(())
    }

    /// What the server knows and no client can change.
    pub fn fix(&mut self, name: &'static str, value: String) {
        self.defaults.insert(name.to_ascii_lowercase(), value);
        self.changed();
    }

    /// The value in normal form. `None`: no such setting.
    pub fn get(&self, name: &str) -> Option<String> {
        let key = key(name);
        if let Some(slot) = self.values.get(&key)
            && let Some(value) = slot.local.as_ref().or(slot.session.as_ref())
        {
            return Some(value.clone());
        }
        self.default_of(&key)
    }

    fn default_of(&self, key: &str) -> Option<String> {
        self.defaults.get(key).cloned().or_else(|| table::find(key).map(shown_default))
    }

    /// As [`Variables::get`], for a setting that exists.
    pub fn known(&self, name: &'static str) -> String {
        self.get(name).unwrap_or_default()
    }

    pub fn is_on(&self, name: &'static str) -> bool {
        self.known(name) == "on"
    }

    /// A time setting; `None` = off.
    pub fn timeout(&self, name: &'static str) -> Option<std::time::Duration> {
        let milliseconds = value::milliseconds(&self.known(name));
        u64::try_from(milliseconds).ok().filter(|m| *m > 0).map(std::time::Duration::from_millis)
    }

    /// SET; `None` = DEFAULT. Gives the new value.
    pub fn set(&mut self, name: &str, value: Option<&str>, scope: Scope) -> Result<String, SqlError> {
        let (key, normal) = match value {
            Some(value) => {
                let (key, normal) = self.checked(name, value)?;
                (key, Some(normal))
            }
            None => {
                self.check_access(name)?;
                (key(name), None)
            }
        };
        let default = self.default_of(&key).unwrap_or_default();
        let slot = self.values.entry(key.clone()).or_default();
        self.journal.push((key.clone(), slot.clone()));
        match scope {
            Scope::Session => *slot = Slot { session: normal.clone(), local: None },
            // DEFAULT must hide what SET has said.
            Scope::Local => slot.local = Some(normal.clone().unwrap_or_else(|| default.clone())),
        }
        self.changed();
        Ok(normal.unwrap_or(default))
    }

    /// RESET name.
    pub fn reset(&mut self, name: &str) -> Result<(), SqlError> {
        self.set(name, None, Scope::Session).map(drop)
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) {
        let names: Vec<String> = self.values.keys().cloned().collect();
        for name in names {
            if let Some(slot) = self.values.remove(&name) {
                self.journal.push((name, slot));
            }
        }
        self.changed();
    }

    fn check_access(&self, name: &str) -> Result<Option<&'static Definition>, SqlError> {
        match table::find(name) {
            Some(definition) if definition.access == Access::Fixed => Err(SqlError::new(
                SqlState::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{}\" cannot be changed", definition.name),
            )),
            Some(definition) => Ok(Some(definition)),
            None if is_custom(name) => Ok(None),
            None if name.contains('.') => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid configuration parameter name \"{name}\""),
            )
            .detail("Custom parameter names must be two or more simple identifiers separated by dots.")),
            None => Err(unrecognized(name)),
        }
    }

    fn checked(&self, name: &str, value: &str) -> Result<(String, String), SqlError> {
        let Some(definition) = self.check_access(name)? else { return Ok((key(name), value.to_owned())) };
        let current = self.known(definition.name);
        let mut normal = normalize(definition.name, definition.kind, value, &current)?;
        match definition.name {
            "search_path" if split_list(&normal).is_none() => {
                return Err(value::invalid_value(name, value).detail("List syntax is invalid."));
            }
            "default_transaction_isolation" if normal == "serializable" => {
                return Err(SqlError::unsupported("isolation level serializable").hint("Use repeatable read."));
            }
            "client_min_messages" if normal == "debug" => normal = "debug2".into(),
            _ => {}
        }
        Ok((key(name), normal))
    }

    pub fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// ROLLBACK TO: undoes everything since the mark.
    pub fn roll_back_to(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            if let Some((name, slot)) = self.journal.pop() {
                self.values.insert(name, slot);
            }
        }
        self.changed();
    }

    /// The end of a transaction.
    pub fn roll_back(&mut self) {
        self.roll_back_to(Mark(0));
    }

    /// The end of a transaction: SET stays, SET LOCAL goes.
    pub fn commit(&mut self) {
        if self.journal.is_empty() {
            return;
        }
        self.journal.clear();
        for slot in self.values.values_mut() {
            slot.local = None;
        }
        self.changed();
    }

    /// As set, `"$user"` not yet resolved.
    pub fn search_path(&self) -> Arc<[String]> {
        self.search_path.clone()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    fn changed(&mut self) {
        self.version += 1;
        let path = split_list(&self.known("search_path")).unwrap_or_default();
        if *path != *self.search_path {
            self.search_path = path.into();
        }
    }

    /// What ParameterStatus tells: name and value, in the order of the table.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        DEFINITIONS.iter().filter(|d| d.reported).map(|d| (d.name, self.known(d.name)))
    }

    /// Name, value, description of all, custom ones too, by name.
    pub fn all(&self) -> Vec<(String, String, String)> {
        let mut all: Vec<_> =
            DEFINITIONS.iter().map(|d| (d.name.to_owned(), self.known(d.name), d.description.to_owned())).collect();
        let custom = self.values.keys().chain(self.defaults.keys()).filter(|k| k.contains('.'));
        let mut custom: Vec<String> = custom.cloned().collect();
        custom.sort();
        custom.dedup();
        all.extend(custom.into_iter().filter_map(|k| self.get(&k).map(|v| (k, v, String::new()))));
        all
    }
}

fn key(name: &str) -> String {
    match name.to_ascii_lowercase() {
        spelled if spelled == "time zone" => "timezone".into(),
        spelled => spelled,
    }
}

fn shown_default(definition: &Definition) -> String {
    normalize(definition.name, definition.kind, definition.default, definition.default)
        .unwrap_or_else(|_| definition.default.to_owned())
}

fn is_custom(name: &str) -> bool {
    let simple = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    name.contains('.') && name.split('.').all(simple)
}

pub fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// The text of `SET name = a, b`: lists are kept as identifiers.
pub fn join_values(name: &str, values: &[String]) -> Result<String, SqlError> {
    let is_list = table::find(name).is_some_and(|d| matches!(d.kind, value::Kind::List));
    match values {
        [] => Ok(String::new()),
        [_, _, ..] if !is_list && !table::find(name).is_some_and(|d| d.kind == value::Kind::DateStyle) => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("SET {name} takes only one argument")))
        }
        values if is_list => Ok(values.iter().map(|v| quote_identifier(v)).collect::<Vec<_>>().join(", ")),
        values => Ok(values.join(", ")),
    }
}

#[cfg(test)]
mod tests;
