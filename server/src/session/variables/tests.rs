use super::*;

#[test]
fn the_table_is_sorted_and_its_defaults_are_valid() {
    assert!(DEFINITIONS.is_sorted_by_key(|d| d.name.to_ascii_lowercase()));
    for definition in DEFINITIONS {
        let normal = normalize(definition.name, definition.kind, definition.default, definition.default);
        assert!(normal.is_ok(), "{}: {normal:?}", definition.name);
    }
}

/// Values as PostgreSQL 15 shows them.
#[test]
fn values_are_shown_in_normal_form() {
    for (name, given, shown) in [
        ("statement_timeout", "90000", "90s"),
        ("statement_timeout", "1500", "1500ms"),
        ("statement_timeout", "2min", "2min"),
        ("statement_timeout", "0", "0"),
        ("statement_timeout", "500us", "1ms"),
        ("work_mem", "4096", "4MB"),
        ("work_mem", "100", "100kB"),
        ("work_mem", "1GB", "1GB"),
        ("standard_conforming_strings", "ON", "on"),
        ("geqo", "f", "off"),
        ("datestyle", "iso, dmy", "ISO, DMY"),
        ("datestyle", "sql", "SQL, MDY"),
        ("timezone", "europe/berlin", "Europe/Berlin"),
        ("timezone", "-7", "Etc/GMT+7"),
        ("time zone", "UTC", "UTC"),
        ("client_encoding", "utf-8", "UTF8"),
        ("synchronous_commit", "false", "off"),
        ("extra_float_digits", "3", "3"),
        ("default_transaction_isolation", "Repeatable Read", "repeatable read"),
        ("my.setting", "anything at all", "anything at all"),
    ] {
        let mut variables = Variables::default();
        let set = variables.set(name, Some(given), Scope::Session).unwrap_or_else(|e| panic!("{name} = {given}: {e}"));
        assert_eq!(set, shown, "{name} = {given}");
        assert_eq!(variables.get(name).as_deref(), Some(shown));
    }
}

#[test]
fn refusals_have_postgresqls_codes() {
    for (name, value, state) in [
        ("nonsense", "1", "42704"),
        ("geqo", "maybe", "22023"),
        ("statement_timeout", "5 parsecs", "22023"),
        ("statement_timeout", "-1", "22023"),
        ("timezone", "Mars/Olympus", "22023"),
        ("datestyle", "klingon", "22023"),
        ("client_encoding", "latin1", "0A000"),
        ("client_encoding", "nothing", "22023"),
        ("server_version", "16", "55P02"),
        ("standard_conforming_strings", "off", "0A000"),
        ("default_transaction_isolation", "serializable", "0A000"),
        ("search_path", "a b", "22023"),
        ("a..b", "x", "22023"),
    ] {
        let error = Variables::default().set(name, Some(value), Scope::Session).expect_err(name);
        assert_eq!(error.state().0, state, "{name} = {value}: {error}");
    }
}

#[test]
fn a_rollback_takes_set_back_and_a_commit_only_set_local() {
    let mut v = Variables::default();
    v.set("application_name", Some("before"), Scope::Session).expect("valid");
    v.commit();
    v.set("application_name", Some("inside"), Scope::Session).expect("valid");
    let mark = v.mark();
    v.set("application_name", Some("local"), Scope::Local).expect("valid");
    assert_eq!(v.known("application_name"), "local");
    v.roll_back_to(mark);
    assert_eq!(v.known("application_name"), "inside");
    v.set("application_name", Some("local"), Scope::Local).expect("valid");
    v.commit();
    assert_eq!(v.known("application_name"), "inside");
    v.set("application_name", Some("lost"), Scope::Session).expect("valid");
    v.roll_back();
    assert_eq!(v.known("application_name"), "inside");
}

#[test]
fn reset_goes_back_to_what_the_client_started_with() {
    let mut v = Variables::default();
    v.start_with("client_encoding", "'utf-8'").expect("valid");
    v.start_with("TimeZone", "Asia/Tokyo").expect("valid");
    v.set("timezone", Some("UTC"), Scope::Session).expect("valid");
    v.set("my.own", Some("x"), Scope::Session).expect("valid");
    v.reset("timezone").expect("known");
    assert_eq!(v.known("TimeZone"), "Asia/Tokyo");
    v.reset_all();
    assert_eq!(v.get("my.own"), None);
    v.set("timezone", Some("UTC"), Scope::Session).expect("valid");
    v.set("timezone", None, Scope::Local).expect("known");
    assert_eq!(v.known("TimeZone"), "Asia/Tokyo");
    v.commit();
    assert_eq!(v.known("TimeZone"), "UTC");
}

#[test]
fn a_path_is_a_list_of_identifiers() {
    let mut v = Variables::default();
    assert_eq!(*v.search_path(), ["$user".to_owned(), "public".to_owned()]);
    let joined = join_values("search_path", &["My Schema".into(), "b".into()]).expect("a list");
    v.set("search_path", Some(&joined), Scope::Session).expect("valid");
    assert_eq!(v.known("search_path"), "\"My Schema\", b");
    assert_eq!(*v.search_path(), ["My Schema".to_owned(), "b".to_owned()]);
    assert!(join_values("geqo", &["on".into(), "off".into()]).is_err());
}
