//! Messages ↔ bytes: framing, startup, TLS, errors and values. No SQL and no session state.
//! Lives on the shard thread of the connection; value encoding also on compute threads.
