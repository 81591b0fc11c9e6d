//! Simple and extended protocol: order, errors, what is discarded, what is flushed.

use std::time::Duration;

use crate::harness::Node;

#[test]
fn simple_texts() {
    Node::start().run(
        "
        Q
        = I Z:I
        Q ;
        = I Z:I
        Q show geqo; show jit
        = T(geqo:25) D(on) C:SHOW T(jit:25) D(off) C:SHOW Z:I
        Q selec 1
        = E:42601 Z:I
        Q show geqo; show nothing; show jit
        = T(geqo:25) D(on) C:SHOW E:42704 Z:I
        F
        = E:0A000 Z:I
        # Left over from a COPY that failed.
        d stray
        c
        Q show geqo
        = T D(on) C:SHOW Z:I
        ",
    );
}

#[test]
fn extended_statements_and_portals() {
    Node::start().run(
        "
        P s | show geqo
        B - | s
        D S s
        D P -
        E - 0
        S
        = 1 2 t() T(geqo:25) T(geqo:25) D(on) C:SHOW Z:I
        # The name is taken; the unnamed one is not kept for long.
        P s | show jit
        S
        = E:42P05 Z:I
        P - | show jit
        P - | show geqo
        B - | -
        E - 0
        C S s
        C S unknown
        C P unknown
        S
        = 1 1 2 D(on) C:SHOW 3 3 3 Z:I
        B - | s
        S
        = E:26000 Z:I
        E nothing 0
        S
        = E:34000 Z:I
        D P nothing
        S
        = E:34000 Z:I
        # A statement survives Sync and a portal outside a block does not.
        P - | show geqo
        S
        D S -
        B p | -
        S
        E p 0
        S
        = 1 Z:I t() T(geqo:25) 2 Z:I E:34000 Z:I
        P - | show geqo; show jit
        S
        = E:42601 Z:I
        P - | show geqo
        B - | - | 1
        S
        = 1 E:08P01 Z:I
        P - |
        B - | -
        D S -
        D P -
        E - 0
        S
        = 1 2 t() n n I Z:I
        ",
    );
}

/// C01 and the row limit's exact replies.
#[test]
fn a_row_limit_suspends_and_a_tag_counts_the_last_execute() {
    Node::start().run(
        "
        P - | show all
        B - | -
        E - 2
        E - 1
        S
        = 1 2 D D s D s Z:I
        P - | show geqo
        B - | -
        E - 1
        E - 1
        S
        = 1 2 D(on) s C:SHOW Z:I
        ",
    );
}

/// C02: after an error everything is discarded until Sync, a simple Query too, and there is one ReadyForQuery.
#[test]
fn an_error_discards_until_sync() {
    Node::start().run(
        "
        P - | show nothing
        B - | -
        E - 0
        Q show geqo
        H
        S
        = 1 E:42704 Z:I
        Q show geqo
        = T D(on) C:SHOW Z:I
        ",
    );
}

/// C04: a flush pushes out what there is, without ReadyForQuery; the portal lives until the one Sync.
#[test]
fn flush_pushes_without_ready() {
    Node::start().run(
        "
        P - | show geqo
        B C_1 | -
        D P C_1
        H
        = 1 2 T(geqo:25)
        E C_1 1
        H
        = D(on) s
        E C_1 1
        H
        = C:SHOW
        C P C_1
        S
        = 3 Z:I
        ",
    );
}

#[test]
fn settings_are_reported_just_before_ready() {
    Node::start().run(
        "
        Q set application_name = 'a'; set timezone = 'Asia/Tokyo'
        = C:SET C:SET S:application_name=a S:TimeZone=Asia/Tokyo Z:I
        Q set timezone = 'Asia/Tokyo'
        = C:SET Z:I
        Q begin; set timezone = 'UTC'
        = C:BEGIN C:SET S:TimeZone=UTC Z:T
        Q rollback
        = C:ROLLBACK S:TimeZone=Asia/Tokyo Z:I
        Q reset timezone
        = C:RESET S:TimeZone=UTC Z:I
        Q discard all
        = C:DISCARD ALL S:application_name= Z:I
        Q set server_version = '16'
        = E:55P02 Z:I
        Q set my.own = 'x'; show my.own
        = C:SET T(my.own:25) D(x) C:SHOW Z:I
        ",
    );
}

#[test]
fn malformed_messages_are_errors_and_the_session_goes_on() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.write(b"Q\0\0\0\x07abc");
    connection.expect("E:08P01 Z:I", "a text without end");
    connection.write(b"Q\0\0\0\x08a\xff\xfe\0");
    connection.expect("E:22021 Z:I", "no UTF-8");
    connection.write(b"B\0\0\0\x06\0\0S\0\0\0\x04");
    connection.expect("E:08P01 Z:I", "a Bind cut short");
    connection.say("Q show geqo");
    connection.expect("T D(on) C:SHOW Z:I", "as before");
    connection.write(b"?\0\0\0\x04");
    connection.expect("E:08P01 closed", "no message at all");
}

#[test]
fn notifications_come_at_commit_folded_and_when_idle() {
    Node::start().run(
        "
        Q listen news
        = C:LISTEN Z:I
        c2 Q begin; notify news, 'a'; notify news, 'a'; notify news, 'b'; notify other, 'c'
        c2 = C:BEGIN C:NOTIFY C:NOTIFY C:NOTIFY C:NOTIFY Z:T
        c2 Q commit
        c2 = C:COMMIT Z:I
        = A:news=a A:news=b
        c2 Q begin; notify news, 'lost'; rollback
        c2 = C:BEGIN C:NOTIFY C:ROLLBACK Z:I
        Q notify news
        = C:NOTIFY A:news= Z:I
        # In a block they wait.
        Q begin
        = C:BEGIN Z:T
        c2 Q notify news, 'later'
        c2 = C:NOTIFY Z:I
        Q commit
        = C:COMMIT A:news=later Z:I
        Q unlisten *
        = C:UNLISTEN Z:I
        Q notify news, 'nobody'
        = C:NOTIFY Z:I
        ",
    );
}

#[test]
fn idle_sessions_end_at_their_timeouts() {
    let node = Node::start();
    for (script, state) in [
        ("Q set idle_session_timeout = 50", "57P05"),
        ("Q set idle_in_transaction_session_timeout = 50; begin", "25P03"),
    ] {
        let mut connection = node.connect();
        connection.say(script);
        while !connection.next().starts_with('Z') {}
        connection.expect(&format!("E:{state} closed"), script);
    }
}

/// A pipelined statement is carried out although its client has left: it may rely on it.
#[test]
fn what_was_said_before_terminate_is_done() {
    let node = Node::start();
    let mut listener = node.connect();
    listener.say("Q listen farewell");
    listener.expect("C:LISTEN Z:I", "listen");
    let mut leaving = node.connect();
    leaving.say("Q notify farewell, 'done'");
    leaving.say("X");
    drop(leaving);
    listener.expect("A:farewell=done", "the last word");
}

/// Nothing is kept of sessions that are gone.
#[test]
fn sessions_leave_nothing_behind() {
    let node = Node::start();
    for round in 0..100 {
        let mut connection = node.connect();
        connection.say("Q listen a; begin; declare c cursor for select 1");
        if round % 2 == 0 {
            connection.next();
        }
    }
    let left = || node.handle().server().sessions.count();
    for _ in 0..100 {
        if left() == 0 {
            break;
        }
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(), 0);
}
