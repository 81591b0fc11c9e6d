//! Blocks, savepoints, modes, implicit transactions.

use crate::harness::Node;

#[test]
fn blocks_and_their_warnings() {
    Node::start().run(
        "
        Q commit
        = N:25P01 C:COMMIT Z:I
        Q rollback
        = N:25P01 C:ROLLBACK Z:I
        Q begin
        = C:BEGIN Z:T
        Q begin
        = N:25001 C:BEGIN Z:T
        Q show nothing
        = E:42704 Z:E
        Q show geqo
        = E:25P02 Z:E
        Q begin
        = E:25P02 Z:E
        Q commit
        = C:ROLLBACK Z:I
        Q start transaction
        = C:START TRANSACTION Z:T
        Q end
        = C:COMMIT Z:I
        Q commit and chain
        = E:25P01 Z:I
        Q begin read only; commit and chain; show transaction_read_only; rollback
        = C:BEGIN C:COMMIT T(transaction_read_only:25) D(on) C:SHOW C:ROLLBACK Z:I
        Q set local geqo = off
        = N:25P01 C:SET Z:I
        Q show geqo
        = T D(on) C:SHOW Z:I
        Q begin; discard all
        = C:BEGIN E:25001 Z:E
        Q rollback
        = C:ROLLBACK Z:I
        ",
    );
}

#[test]
fn savepoints() {
    Node::start().run(
        "
        Q savepoint a
        = E:25P01 Z:I
        Q begin; savepoint a; set geqo = off; savepoint a; show nothing
        = C:BEGIN C:SAVEPOINT C:SET C:SAVEPOINT E:42704 Z:E
        Q savepoint b
        = E:25P02 Z:E
        Q rollback to b
        = E:3B001 Z:E
        Q rollback to a
        = C:ROLLBACK Z:T
        Q show geqo
        = T D(off) C:SHOW Z:T
        # The inner one of the name goes first.
        Q release a; rollback to a; show geqo; commit
        = C:RELEASE C:ROLLBACK T D(on) C:SHOW C:COMMIT Z:I
        ",
    );
}

#[test]
fn modes() {
    Node::start().run(
        "
        Q begin isolation level serializable
        = E:0A000 Z:I
        Q begin isolation level repeatable read read only; show transaction isolation level
        = C:BEGIN T(transaction_isolation:25) D(repeatable read) C:SHOW Z:T
        Q set transaction isolation level read committed; show transaction_isolation
        = C:SET T D(read committed) C:SHOW Z:T
        Q set transaction isolation level serializable
        = E:0A000 Z:E
        Q rollback
        = C:ROLLBACK Z:I
        Q set session characteristics as transaction isolation level repeatable read
        = C:SET Z:I
        Q show transaction_isolation; begin; show transaction_isolation; commit
        = T D(repeatable read) C:SHOW C:BEGIN T D(repeatable read) C:SHOW C:COMMIT Z:I
        Q set default_transaction_read_only = on
        = C:SET S:default_transaction_read_only=on Z:I
        Q show transaction_read_only
        = T D(on) C:SHOW Z:I
        ",
    );
}

/// C03, as far as settings show it: a text of several statements is one transaction.
#[test]
fn a_text_is_one_transaction_and_so_is_a_pipeline() {
    Node::start().run(
        "
        Q set geqo = off; show nothing; set jit = on
        = C:SET E:42704 Z:I
        Q show geqo; show jit
        = T D(on) C:SHOW T D(off) C:SHOW Z:I
        P - | set geqo = off
        B - | -
        E - 0
        P - | show nothing
        B - | -
        E - 0
        S
        = 1 2 C:SET 1 E:42704 Z:I
        Q show geqo
        = T D(on) C:SHOW Z:I
        # An explicit block inside the text makes its own rules.
        Q begin; set geqo = off; commit; show nothing
        = C:BEGIN C:SET C:COMMIT E:42704 Z:I
        Q show geqo
        = T D(off) C:SHOW Z:I
        # A block begun in a pipeline goes on after Sync.
        P - | begin
        B - | -
        E - 0
        S
        = 1 2 C:BEGIN Z:T
        P - | rollback
        B - | -
        E - 0
        S
        = 1 2 C:ROLLBACK Z:I
        ",
    );
}
