//! SQL cursors and prepared statements of SQL, as far as names go.

use crate::harness::Node;

#[test]
fn names_that_are_not_there() {
    Node::start().run(
        "
        Q fetch 1 from c
        = E:34000 Z:I
        Q move 1 from c
        = E:34000 Z:I
        Q close c
        = E:34000 Z:I
        Q close all
        = C:CLOSE CURSOR ALL Z:I
        Q declare c cursor for select 1
        = E:25P01 Z:I
        Q execute s
        = E:26000 Z:I
        Q deallocate s
        = E:26000 Z:I
        Q deallocate all
        = C:DEALLOCATE ALL Z:I
        ",
    );
}
