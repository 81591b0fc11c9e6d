//! The opening of a connection, settings of the startup packet, cancel, the end of a node.

use crate::harness::{Connection, Node};

const WHO: [(&str, &str); 2] = [("user", "postgres"), ("database", "postgres")];

fn int(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

#[test]
fn a_client_is_told_all_settings_of_postgresql_15_and_its_key() {
    let node = Node::start();
    let connection = node.connect();
    let names: Vec<&str> = connection.parameters.keys().map(String::as_str).collect();
    let expected = [
        "DateStyle",
        "IntervalStyle",
        "TimeZone",
        "application_name",
        "client_encoding",
        "default_transaction_read_only",
        "in_hot_standby",
        "integer_datetimes",
        "is_superuser",
        "server_encoding",
        "server_version",
        "session_authorization",
        "standard_conforming_strings",
    ];
    assert_eq!(names, expected);
    assert!(connection.parameters["server_version"].starts_with("15."));
    assert!(connection.pid > 0);
    assert_eq!(connection.key.len(), 4);
    assert_ne!(connection.key, [0; 4]);
}

#[test]
fn ssl_and_gss_requests_are_answered_and_the_connection_goes_on() {
    let node = Node::start();
    let mut connection = Connection::raw(node.address());
    for code in [80_877_104u32, 80_877_103] {
        connection.write(&[8u32.to_be_bytes(), code.to_be_bytes()].concat());
        assert_eq!(connection.read_byte(), Some(b'N'));
    }
    connection.startup(3 << 16, &WHO);
    assert_eq!(connection.next(), "R");
}

#[test]
fn newer_protocols_are_negotiated_down() {
    let node = Node::start();
    let mut connection = Connection::raw(node.address());
    connection.startup((3 << 16) + 2, &[("user", "postgres"), ("_pq_.fancy", "1")]);
    let (kind, body) = connection.read().expect("an answer");
    assert_eq!((kind, int(&body[..4]), int(&body[4..8])), (b'v', 3 << 16, 1));
    assert_eq!(&body[8..], b"_pq_.fancy\0");
    assert_eq!(connection.next(), "R");
}

#[test]
fn refusals_have_postgresqls_codes() {
    let node = Node::start();
    for (settings, state) in [
        (vec![("user", "nobody")], "28000"),
        (vec![("user", "postgres"), ("database", "nowhere")], "3D000"),
        (vec![("database", "postgres")], "28000"),
        (vec![("user", "postgres"), ("no_such_setting", "1")], "42704"),
        (vec![("user", "postgres"), ("options", "-c statement_timeout=soon")], "22023"),
        (vec![("user", "postgres"), ("replication", "database")], "0A000"),
    ] {
        let mut connection = Connection::raw(node.address());
        connection.startup(3 << 16, &settings);
        let mut message = connection.next();
        if message == "R" {
            message = connection.next();
        }
        assert_eq!(message, format!("E:{state}"), "{settings:?}");
        assert_eq!(connection.next(), "closed");
    }
    let mut old = Connection::raw(node.address());
    old.startup(2 << 16, &WHO);
    assert_eq!(old.next(), "E:0A000");
}

#[test]
fn settings_of_the_packet_are_case_insensitive_and_may_be_quoted() {
    let node = Node::start();
    let settings = [
        ("user", "postgres"),
        ("client_encoding", "'utf-8'"),
        ("datestyle", "ISO, DMY"),
        ("TIMEZONE", "europe/paris"),
        ("options", "-c search_path=a,b -c statement_timeout=5000"),
    ];
    let mut connection = Connection::open(node.address(), &settings);
    assert_eq!(connection.parameters["client_encoding"], "UTF8");
    assert_eq!(connection.parameters["DateStyle"], "ISO, DMY");
    assert_eq!(connection.parameters["TimeZone"], "Europe/Paris");
    connection.say("Q show statement_timeout; show search_path");
    connection.expect("T(statement_timeout:25) D(5s) C:SHOW T(search_path:25) D(a,b) C:SHOW Z:I", "SHOW");
}

#[test]
fn a_password_is_asked_for_and_a_wrong_message_refused() {
    let node = Node::start_with(|config| config.password = Some(alluvium::config::Password("secret".into())));
    let mut connection = Connection::raw(node.address());
    connection.startup(3 << 16, &WHO);
    let (kind, body) = connection.read().expect("an answer");
    assert_eq!((kind, int(&body[..4])), (b'R', 10));
    // Without TLS there is nothing to bind to, so -PLUS is not offered.
    assert_eq!(&body[4..], b"SCRAM-SHA-256\0\0");
    connection.write(b"p\0\0\0\x09abcd\0");
    assert_eq!(connection.next(), "E:28P01");
    assert_eq!(connection.next(), "closed");
}

#[test]
fn beyond_max_connections_clients_are_turned_away() {
    let node = Node::start_with(|config| config.max_connections = 1);
    let first = node.connect();
    let mut second = Connection::raw(node.address());
    second.startup(3 << 16, &WHO);
    second.expect("R E:53300 closed", "the second client");
    drop(first);
}

/// C07: a cancel that comes while nothing runs has no effect later; one with a wrong key never has.
#[test]
fn a_cancel_request_gets_no_reply_and_does_not_concern_the_next_statement() {
    let node = Node::start();
    let mut connection = node.connect();
    let mut wrong = connection.key.clone();
    wrong[0] ^= 1;
    for key in [connection.key.clone(), wrong] {
        let mut cancel = Connection::raw(node.address());
        let pid = connection.pid.to_be_bytes();
        cancel.write(&[&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &pid, &key].concat());
        assert_eq!(cancel.next(), "closed");
    }
    connection.say("Q show geqo");
    connection.expect("T D(on) C:SHOW Z:I", "the next statement");
}

#[test]
fn a_stopping_node_sends_idle_sessions_away() {
    let node = Node::start();
    let mut connection = node.connect();
    let mut in_block = node.connect();
    in_block.say("Q begin");
    in_block.expect("C:BEGIN Z:T", "begin");
    node.stop();
    connection.expect("E:57P01 closed", "an idle session");
    in_block.expect("E:57P01 closed", "a session idle in a block");
}
